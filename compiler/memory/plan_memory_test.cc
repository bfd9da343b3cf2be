#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/pack.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Plans memory afresh, and proves the result.
proto::Plan Planned(PlanBuilder* b, int stages = 1) {
  proto::Plan plan = b->Finish();
  plan.clear_memory();
  REQUIRE(PlanMemory(stages, &plan).ok());
  const absl::Status proof = VerifyPlan(plan, {.kernels = false});
  INFO(proof.ToString());
  CHECK(proof.ok());
  return plan;
}

Spans FindSpans(const proto::Plan& plan, int reg) {
  const auto net = MakePlanNet(plan, plan.program(0));
  const auto lifetimes = FindLifetimes(*net, 1);
  for (const Lifetime& life : lifetimes[0].registers) {
    if (life.reg == reg) return life.spans;
  }
  return {};
}

}  // namespace

TEST_CASE("a chain needs the bytes of its largest two neighbours") {
  PlanBuilder b;
  std::vector<int> regs, actors;
  for (int i = 0; i < 6; ++i) regs.push_back(b.Register("x" + std::to_string(i), 0, 1, 16));
  for (int i = 0; i < 6; ++i) {
    actors.push_back(b.Actor(
        "a" + std::to_string(i), 0,
        i == 0 ? std::vector<PlanBuilder::In>{} : std::vector<PlanBuilder::In>{{regs[i - 1]}},
        {regs[i]}));
  }
  b.Stream("compute", 0, {{{b.Segment("F", 0, actors)}, 4}});
  const proto::Plan plan = Planned(&b);
  CHECK(plan.memory(0).register_bytes() == 128);
  CHECK(LowerBoundBytes(plan, 0) == 128);
}

TEST_CASE("a fill takes its bytes until the last of its readers has returned it") {
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y");
  const int late = b.Actor("late", 0, {{x}}, {}), a = b.Actor("a", 0, {}, {x}),
            early = b.Actor("early", 0, {{x}}, {}), c = b.Actor("c", 0, {}, {y}),
            d = b.Actor("d", 0, {{y}}, {});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {a, early, c, d, late})}, 4}});
  const proto::Plan plan = Planned(&b);
  CHECK(plan.memory(0).register_bytes() == 128);
  CHECK(LowerBoundBytes(plan, 0) == 128);
}

TEST_CASE("what is saved for the backward lives until it, other micro-batches included") {
  PlanBuilder b;
  const int saved = b.Register("saved", 0, 2), temporary = b.Register("temporary");
  const int f = b.Segment("F", 0,
                          {b.Actor("f", 0, {}, {saved}), b.Actor("f2", 0, {{saved}}, {temporary}),
                           b.Actor("f3", 0, {{temporary}}, {})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{saved}}, {})});
  b.Stream("compute", 0, {{{f}, 2}, {{g}, 2}});
  const proto::Plan plan = Planned(&b);
  // Positions: f f2 f3 f f2 f3 g g; of three moments each, the second reads and writes.
  CHECK(FindSpans(plan, saved) == Spans{{1, 22}});
  CHECK(FindSpans(plan, temporary) == Spans{{4, 7}, {13, 16}});
  CHECK(plan.memory(0).register_bytes() == 3 * 64);
}

TEST_CASE("what an exchange reads lives until it has completed here") {
  PlanBuilder b({{"tensor", 2}});
  const int x = b.Register("x"), y = b.Register("y"), z = b.Register("z");
  b.Stream("compute", 0,
           {{{b.Segment("F", 0,
                        {b.Actor("a", 0, {}, {x}), b.AllReduce("sum", 0, {0}, {x}, y),
                         b.Actor("local", 0, {{y}}, {z}), b.Actor("last", 0, {{z}}, {})})},
             1}});
  const proto::Plan plan = Planned(&b);
  // Positions: a sum local last; of three moments each, the second reads and writes.
  CHECK(FindSpans(plan, x) == Spans{{1, 4}});
  CHECK(FindSpans(plan, y) == Spans{{4, 7}});
  CHECK(plan.memory(0).register_bytes() == 128);
}

TEST_CASE("what another stream writes ahead keeps its bytes; empty registers take none") {
  PlanBuilder b;
  const int in = b.Register("in", 0, 2), x = b.Register("x"), y = b.Register("y"),
            control = b.Register("control");
  b.At(control).set_slot_bytes(0);
  const int load = b.Segment("load", 0, {b.Actor("load", 0, {}, {in})});
  const int s = b.Segment("F", 0,
                          {b.Actor("a", 0, {{in}}, {x, control}),
                           b.Actor("b", 0, {{x}, {control}}, {y}), b.Actor("c", 0, {{y}}, {})});
  b.Stream("compute", 0, {{{s}, 4}});
  b.Stream("host.in", 0, {{{load}, 4}});
  const proto::Plan plan = Planned(&b);
  CHECK(FindSpans(plan, in) == Spans{{0, 35}});
  CHECK(FindSpans(plan, control).empty());
  CHECK(plan.memory(0).register_bytes() == 4 * 64);
}

TEST_CASE("what another stream writes shares bytes with what it has to wait for") {
  // copy reads y, written after the last read of x: its own register may lie where x did. The
  // compute stream knows that the copy is over when it reads what came.
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y"), copied = b.Register("copied"),
            z = b.Register("z");
  const int begin = b.Segment("F", 0, {b.Actor("a", 0, {}, {x}), b.Actor("b", 0, {{x}}, {y})});
  const int copy = b.Segment("copy", 0, {b.Actor("copy", 0, {{y}}, {copied})});
  const int end = b.Segment("B", 0, {b.Actor("c", 0, {{copied}}, {z}), b.Actor("d", 0, {{z}}, {})});
  b.Stream("compute", 0, {{{begin}, 1}, {{end}, 1}});
  b.Stream("copy.forward", 0, {{{copy}, 1}});
  const proto::Plan plan = Planned(&b);
  // Of a b c d the copy comes after b (complete at 5), and c (at 7) is the last to touch it.
  CHECK(FindSpans(plan, copied) == Spans{{5, 7}});
  CHECK(FindSpans(plan, y) == Spans{{4, 6}});
  CHECK(plan.program(0).register_(copied).offset() == plan.program(0).register_(x).offset());
  CHECK(plan.memory(0).register_bytes() == 128);
  CHECK(LowerBoundBytes(plan, 0) == 128);
}

TEST_CASE("what the backward needs for a while lies where its micro-batch has just been returned") {
  // Two micro-batches in flight save a and b. g reads b and writes t; h reads t and writes u, which
  // takes the place of b in the frame of the micro-batch, another one each time.
  PlanBuilder b;
  const int a = b.Register("a", 0, 2), saved = b.Register("b", 0, 2), t = b.Register("t"),
            u = b.Register("u");
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {a}), b.Actor("f2", 0, {{a}}, {saved})});
  const int g = b.Segment("B", 0,
                          {b.Actor("g", 0, {{saved}}, {t}), b.Actor("h", 0, {{t}}, {u}),
                           b.Actor("k", 0, {{u}, {a}}, {})});
  b.Stream("compute", 0, {{{f}, 1}, {{f, g}, 4}, {{g}, 1}});
  const proto::Plan plan = Planned(&b);
  CHECK(LowerBoundBytes(plan, 0) == 5 * 64);
  CHECK(plan.memory(0).register_bytes() == 5 * 64);
  const auto reg = [&](int id) { return plan.program(0).register_(id); };
  CHECK(reg(u).slots() == 1);
  CHECK(reg(u).buffers() == 2);
  CHECK(reg(u).stride() == 128);
  CHECK(reg(u).offset() == reg(saved).offset());
  CHECK(reg(t).buffers() == 0);
}

TEST_CASE(
    "what waits for W and was made in B lies where B has just returned what was saved for it") {
  // x is saved for W, a and c for B, which makes g for W: of them 4, 3, 3 and 2 are held at most,
  // but 4, 3, 3 and 1 at once. In four frames of x and g, a lies where g comes later.
  PlanBuilder b;
  const int x = b.Register("x", 0, 4), a = b.Register("a", 0, 3, 32), c = b.Register("c", 0, 3),
            t = b.Register("t"), g = b.Register("g", 0, 2, 32);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x, a, c})});
  const int back =
      b.Segment("B", 0, {b.Actor("take", 0, {{a}}, {t}), b.Actor("make", 0, {{t}, {c}}, {g})});
  const int w = b.Segment("W", 0, {b.Actor("w", 0, {{x}, {g}}, {})});
  b.Stream("compute", 0,
           {{{f}, 3}, {{back}, 1}, {{f}, 1}, {{back, w, f}, 4}, {{back, w}, 3}, {{w}, 1}});
  const proto::Plan plan = Planned(&b);
  CHECK(LowerBoundBytes(plan, 0) == (4 + 3 * 2 + 3 + 2 + 1) * 64);
  CHECK(plan.memory(0).register_bytes() == LowerBoundBytes(plan, 0));
  const auto reg = [&](int id) { return plan.program(0).register_(id); };
  CHECK(reg(a).buffers() == 4);
  CHECK(reg(g).buffers() == 4);
  CHECK(reg(g).offset() == reg(a).offset());
}

TEST_CASE("with all micro-batches in flight, what the backward leaves lies where the first was") {
  // Both micro-batches are saved before the first backward, whose gradient stays until the update.
  PlanBuilder b;
  const int saved = b.Register("saved", 0, 2), sum = b.Register("sum");
  b.At(sum).set_fires_per_fill(2);
  b.At(sum).set_fill_mode(proto::Register::ACCUMULATE);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {saved})});
  const int use = b.Actor("use", 0, {{saved}}, {}), add = b.Actor("add", 0, {}, {sum});
  const int g = b.Segment("B", 0, {use, add});
  const int u = b.Segment("U", 0, {b.Actor("update", 0, {{sum}}, {})});
  b.Stream("compute", 0, {{{f}, 2}, {{g}, 2}, {{u}, 1}});
  const proto::Plan plan = Planned(&b);
  CHECK(LowerBoundBytes(plan, 0) == 2 * 64);
  CHECK(plan.memory(0).register_bytes() == 2 * 64);
  CHECK(plan.program(0).register_(sum).offset() == 0);
  CHECK(plan.program(0).register_(saved).buffers() == 2);
}

TEST_CASE("packing keeps apart what meets, and comes close to what is held at once") {
  std::mt19937 random(3);
  double over = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<ArenaPiece> pieces;
    std::vector<int64_t> held(100, 0);  // by moment
    for (int n = 0; n < 30; ++n) {
      const auto below = [&](int n) { return static_cast<int64_t>(random() % n); };
      const int64_t first = below(90), bytes = 1 + below(64);
      const Spans spans = {{first, std::min<int64_t>(99, first + below(40))}};
      pieces.push_back({spans, {{0, bytes, spans}}});
      for (int64_t at = first; at <= spans[0].second; ++at) held[at] += bytes;
    }
    std::vector<Spans> spans;
    for (const ArenaPiece& piece : pieces) spans.push_back(piece.spans);
    const Pairs meetings = FindOverlaps(spans);
    const Packing packing = Pack(pieces);
    for (size_t j = 0; j < pieces.size(); ++j) {
      const int64_t begin = packing.offsets[j], end = begin + pieces[j].parts[0].bytes;
      CHECK(end <= packing.bytes);
      for (size_t k = 0; k < j; ++k) {
        const int64_t other = packing.offsets[k], other_end = other + pieces[k].parts[0].bytes;
        CHECK((!meetings.Contains(j, k) || end <= other || other_end <= begin));
      }
    }
    over += static_cast<double>(packing.bytes) /
                static_cast<double>(*std::max_element(held.begin(), held.end())) -
            1;
  }
  CHECK(over / 100 < 0.02);  // 0.041 where nothing is moved
}

TEST_CASE("a piece uses bytes that parts of another leave free, unless it is exclusive") {
  const Spans all = {{0, 9}}, early = {{0, 4}}, late = {{5, 9}};
  for (const bool exclusive : {false, true}) {
    const std::vector<ArenaPiece> pieces = {{all, {{0, 8, early}, {8, 8, all}, {20, 8, late}}},
                                            {late, {{0, 8, late}}, exclusive},
                                            {all, {{0, 4, all}}},
                                            {early, {{0, 8, early}}}};
    const Packing packing = Pack(pieces);
    CHECK(packing.offsets == std::vector<int64_t>{0, exclusive ? 28 : 0, 16, 20});
  }
}

TEST_CASE("pieces that are never there at once share bytes, whatever their spans say") {
  const Spans all = {{0, 9}};
  const std::vector<ArenaPiece> pieces(4, {all, {{0, 8, all}}});
  CHECK(Pack(pieces).bytes == 32);
  const Packing packing = Pack(pieces, {{3, 0}, {1, 3}});
  CHECK(packing.bytes == 24);
  CHECK((packing.offsets[3] == packing.offsets[0] || packing.offsets[3] == packing.offsets[1]));
  CHECK(packing.offsets[0] != packing.offsets[1]);
}

TEST_CASE("pieces that are never there at once may be packed as one") {
  // Gradients that are written one after the other and heard to be over at the end only, the sum of
  // each, in whose bytes the ones before it may lie, and activations that go one by one.
  std::mt19937 random(5);
  int64_t apart_only = 0, as_one = 0;
  for (int round = 0; round < 20; ++round) {
    constexpr int kSums = 12, kEnd = 2 * kSums;
    std::vector<ArenaPiece> pieces;
    std::vector<std::pair<int, int>> apart;
    const auto add = [&](int64_t bytes, int64_t first, int64_t last) {
      pieces.push_back({{{first, last}}, {{0, bytes, {{first, last}}}}});
    };
    for (int i = 0; i < kSums; ++i) add(8 * (1 + random() % 4), i, kEnd);
    for (int i = 0; i < kSums; ++i) add(pieces[i].parts[0].bytes, i, kEnd + kSums - i);
    for (int i = 0; i < kSums; ++i) add(1 + random() % 24, 0, kSums - i);
    for (int sum = 0; sum < kSums; ++sum) {
      for (int i = 0; i < sum; ++i) apart.emplace_back(i, kSums + sum);
    }
    int64_t gradients = 0;
    for (int i = 0; i < kSums; ++i) gradients += pieces[i].parts[0].bytes;
    const Packing packing = Pack(pieces, apart, gradients);
    apart_only += Pack(pieces, apart).bytes;
    as_one += packing.bytes;
    std::vector<Spans> spans;
    for (const ArenaPiece& piece : pieces) spans.push_back(piece.spans);
    Pairs meetings = FindOverlaps(spans);
    for (const auto& [a, b] : apart) meetings.Remove(a, b);
    for (size_t j = 0; j < pieces.size(); ++j) {
      const int64_t begin = packing.offsets[j], end = begin + pieces[j].parts[0].bytes;
      CHECK(end <= packing.bytes);
      for (size_t k = 0; k < j; ++k) {
        const int64_t other = packing.offsets[k], other_end = other + pieces[k].parts[0].bytes;
        CHECK((!meetings.Contains(j, k) || end <= other || other_end <= begin));
      }
    }
  }
  INFO(as_one << " bytes, " << apart_only << " where each has its own offset");
  CHECK(as_one < apart_only);
}

namespace {

// Gradients that are summed up once a step on a stream of exchanges, and then applied.
struct Sums {
  PlanBuilder b{{{"data", 2}}};
  std::vector<int> gradients, sums, scratch;
  proto::Plan plan;

  Sums(int n, int64_t elements, bool with_scratch = false) {
    std::vector<int> backward, exchanges, update;
    for (int i = 0; i < n; ++i) {
      const std::string number = std::to_string(i);
      gradients.push_back(b.Register("gradient" + number, 0, 1, elements));
      sums.push_back(b.Register("sum" + number, 0, 1, elements));
      backward.push_back(b.Actor("backward" + number, 0, {}, {gradients[i]}));
      exchanges.push_back(b.AllReduce("exchange" + number, 0, {0}, {gradients[i]}, sums[i]));
      if (with_scratch) {
        scratch.push_back(b.Register("scratch" + number, 0, 1, elements));
        b.program().mutable_actor(exchanges[i])->set_workspace(scratch[i]);
      }
      update.push_back(b.Actor("update" + number, 0, {{sums[i]}}, {}));
    }
    b.Stream("compute", 0, {{{b.Segment("B", 0, backward)}, 1}, {{b.Segment("U", 0, update)}, 1}});
    b.Stream("copy.sum", 0, {{{b.Segment("U", 0, exchanges)}, 1}});
    plan = Planned(&b);
  }
  int64_t Offset(int reg) const { return plan.program(0).register_(reg).offset(); }
};

}  // namespace

TEST_CASE("what an exchange writes may lie where the one before it on its stream has read") {
  // 64 KiB each: small ones are not looked at.
  const Sums large(4, 1 << 14);
  const auto net = MakePlanNet(large.plan, large.plan.program(0));
  const std::vector<Lifetime> lives = FindLifetimes(*net, 1)[0].registers;
  // Of the first two steps, when each exchange begins: the gradients before it are over.
  const auto life = [&](int reg) {
    return *std::find_if(lives.begin(), lives.end(),
                         [&](const Lifetime& l) { return l.reg == reg; });
  };
  for (int k = 0; k < 4; ++k) {
    const Lifetime sum = life(large.sums[k]);
    for (int i = 0; i < 4; ++i) {
      const int32_t* over = sum.CompletedFills(life(large.gradients[i]));
      INFO("sum " << k << ", gradient " << i);
      REQUIRE(sum.fills.size() == 2);
      REQUIRE(over != nullptr);
      CHECK(over[0] == (i < k ? 1 : 0));
      CHECK(over[1] == (i < k ? 2 : 1));
    }
  }
  for (int k = 1; k < 4; ++k) {
    CHECK(std::any_of(large.gradients.begin(), large.gradients.begin() + k, [&](int gradient) {
      return large.Offset(gradient) == large.Offset(large.sums[k]);
    }));
  }
  CHECK(large.plan.memory(0).register_bytes() == 5 * (1 << 16));
  CHECK(Sums(4, 16).plan.memory(0).register_bytes() == 8 * 64);
}

TEST_CASE("exchanges of one stream have their scratch in the same bytes") {
  const Sums sums(4, 1 << 14, /*with_scratch=*/true);
  CHECK(sums.plan.memory(0).register_bytes() == 6 * (1 << 16));  // 5 without any
}

TEST_CASE("what is sent shares its buffer with what comes back for it, once it is sent") {
  PlanBuilder b({{"pipe", 2}});
  const int sent = b.Register("sent"), here = b.Register("here", 1), back = b.Register("back", 1),
            came = b.Register("came", 0, 2);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {sent})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{came}}, {})});
  const auto go = b.SendReceive("go", {sent}, here), come = b.SendReceive("come", {back}, came);
  const int over = b.Register("over");
  b.At(over).set_slot_bytes(0);
  b.program().mutable_actor(go.send)->add_output(over);
  b.AddInput(come.receive, {over});
  b.Stream("compute", 0, {{{f}, 1}, {{f, g}, 4}, {{g}, 1}});
  b.Stream("send.forward", 0, {{{b.Segment("go.send", 0, {go.send})}, 5}});
  b.Stream("receive.backward", 0, {{{b.Segment("come", 0, {come.receive})}, 5}});
  b.Stream("compute", 1, {{{b.Segment("F", 1, {b.Actor("turn", 1, {{here}}, {back})})}, 5}});
  b.Stream("receive.forward", 1, {{{b.Segment("go", 1, {go.receive})}, 5}});
  b.Stream("send.backward", 1, {{{b.Segment("come.send", 1, {come.send})}, 5}});
  const proto::Plan plan = Planned(&b, 2);
  const auto net = MakePlanNet(plan, plan.program(0));
  const std::vector<Lifetime> lives = FindLifetimes(*net, 2)[0].registers;
  REQUIRE(lives.size() == 2);
  CHECK(FindOverlaps({lives[0].spans, lives[1].spans}).Contains(0, 1));
  CHECK_FALSE(MeetInBuffer(lives[0], lives[1], 2));
  CHECK(plan.memory(0).register_bytes() == 2 * 64);
  CHECK(plan.program(0).register_(sent).offset() == plan.program(0).register_(came).offset());
}

TEST_CASE("spans meet where they have a moment in common") {
  const std::vector<Spans> all = {{{0, 2}, {6, 8}}, {{3, 5}, {9, 9}}, {{2, 3}}, {}, {{8, 8}}};
  const std::vector<std::pair<int, int>> meeting = {{0, 2}, {0, 4}, {1, 2}};
  const Pairs meetings = FindOverlaps(all);
  for (int i = 0; i < 5; ++i) {
    for (int j = i + 1; j < 5; ++j) {
      const bool meet = std::count(meeting.begin(), meeting.end(), std::pair(i, j)) > 0;
      CHECK(meetings.Contains(i, j) == meet);
      CHECK(meetings.Contains(j, i) == meet);
    }
  }
}

TEST_CASE("the lower bound counts slots that hold something, and the workspace that is used") {
  // Two slots, of which one at a time holds anything; the workspace is another firing's.
  PlanBuilder b;
  const int x = b.Register("x", 0, 2), y = b.Register("y", 0, 1, 32);
  const int f = b.Actor("f", 0, {}, {x}), g = b.Actor("g", 0, {{x}}, {y}),
            h = b.Actor("h", 0, {{y}}, {});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {f, g, h})}, 4}});
  b.program().mutable_actor(f)->set_workspace(b.Register("f.workspace"));
  b.program().mutable_actor(h)->set_workspace(b.Register("h.workspace", 0, 1, 32));
  const proto::Plan plan = Planned(&b);
  // f's lies where y will be, that of h where x was.
  CHECK(plan.memory(0).register_bytes() == 2 * 64 + 128);
  CHECK(plan.memory(0).arena_bytes() == 2 * 64 + 128);
  CHECK(LowerBoundBytes(plan, 0) == 128 + 128);  // y and the workspace of h
}

TEST_CASE("a plan that does not fit says by how much, and what is largest") {
  PlanBuilder b;
  const int big = b.Register("big", 0, 1, 1024), small = b.Register("small");
  b.Stream("compute", 0, {{{b.Segment("F", 0, {b.Actor("a", 0, {}, {big, small})})}, 1}});
  const proto::Plan plan = Planned(&b);
  const auto check = [&](int64_t memory, int64_t reserve) {
    proto::Device device;
    device.set_memory_bytes(memory);
    device.set_reserve_bytes(reserve);
    return CheckCapacity(plan, device);
  };
  CHECK(check(0, 0).ok());
  CHECK(check(0, 1000).ok());
  CHECK(check(4160, 0).ok());
  CHECK(check(5160, 1000).ok());
  CHECK_THAT(std::string(ToStd(check(5159, 1000).message())),
             Catch::Contains("needs 4,160 bytes (4.1 KiB), a device has 5,159 bytes (5.0 KiB), "
                             "1000 bytes kept for libraries: 1 bytes too many"));
  const absl::Status status = check(4000, 0);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  const std::string message(status.message());
  INFO(message);
  CHECK(
      message.find(
          "needs 4,160 bytes (4.1 KiB), a device has 4,000 bytes (3.9 KiB): 160 bytes too many") !=
      std::string::npos);
  CHECK(message.find("the largest: big (1 x 4,096 bytes (4.0 KiB)), small") != std::string::npos);
}

}  // namespace oneflow
