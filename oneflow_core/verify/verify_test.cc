// The proof, on plans small enough to be judged by eye.
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/verify/edited_plans.h"
#include "oneflow_core/verify/happens_before.h"
#include "oneflow_core/verify/skip_game.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Of the proof of bytes alone, which needs no contents before the first fill.
std::string MemoryVerdict(const proto::Plan& plan) {
  const absl::Status status = VerifyMemory(MakePlanNet(plan, plan.program(0)).value());
  return status.ok() ? "good" : std::string(ToStd(status.message()));
}

bool Says(const std::string& verdict, const std::string& words) {
  INFO(verdict);
  CHECK(verdict.find(words) != std::string::npos);
  return verdict.find(words) != std::string::npos;
}

// F writes h for B. F twice, then B twice: h needs two slots.
proto::Plan ForwardBackward(int slots) {
  PlanBuilder b;
  const int h = b.Register("h", 0, slots);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {h})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{h}}, {})});
  b.Stream("compute", 0, {{{f}, 2}, {{g}, 2}});
  return b.Finish();
}

}  // namespace

TEST_CASE("a plan with slots enough is live, one with a slot less names its cycle") {
  CHECK(Verdict(ForwardBackward(2)) == "good");
  CHECK(Verdict(ForwardBackward(1)) ==
        "program train can stop for ever: F of stage 0 in micro-batch 1 waits for a free slot of "
        "h, held by B of "
        "stage 0, which comes after F of stage 0");
}

TEST_CASE("registers may share bytes only when happens-before parts them") {
  // a -> x -> b -> y -> c: x is over when c writes z.
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y"), z = b.Register("z");
  const int s = b.Segment(
      "F", 0, {b.Actor("a", 0, {}, {x}), b.Actor("b", 0, {{x}}, {y}), b.Actor("c", 0, {{y}}, {z})});
  b.Stream("compute", 0, {{{s}, 3}});
  b.At(x).set_offset(0);
  b.At(y).set_offset(64);
  b.At(z).set_offset(0);
  CHECK(Verdict(b.Finish()) == "good");
  b.At(y).set_offset(0);
  Says(Verdict(b.Finish()),
       "registers x and y of stage 0 share bytes, but F of stage 0 (b) may write while F of stage "
       "0 (b) still reads");
}

TEST_CASE("a workspace may lie where nothing is held while its actor fires") {
  // a -> x -> b -> y -> c -> z -> d: of x and y only b needs both.
  const auto verdict = [](int user, int64_t at) {
    PlanBuilder b;
    const int x = b.Register("x"), y = b.Register("y"), z = b.Register("z"),
              scratch = b.Register("scratch");
    b.Stream("compute", 0,
             {{{b.Segment("F", 0,
                          {b.Actor("a", 0, {}, {x}), b.Actor("b", 0, {{x}}, {y}),
                           b.Actor("c", 0, {{y}}, {z}), b.Actor("d", 0, {{z}}, {})})},
               3}});
    b.program().mutable_actor(user)->set_workspace(scratch);
    b.At(x).set_offset(0), b.At(y).set_offset(64), b.At(z).set_offset(128);
    b.At(scratch).set_offset(at);
    return Verdict(b.Finish());
  };
  CHECK(verdict(2, 0) == "good");
  CHECK(verdict(0, 64) == "good");
  Says(verdict(1, 0), "registers x and scratch of stage 0 share bytes");
  Says(verdict(1, 64), "registers y and scratch of stage 0 share bytes");
  Says(verdict(2, 128), "registers z and scratch of stage 0 share bytes");
}

TEST_CASE("more slots than a proof has room for are refused, not allocated") {
  PlanBuilder b;
  std::vector<int> sends, fetches;
  for (int i = 0; i < 4000; ++i) {
    const int x = b.Register("x" + std::to_string(i), 0, 1 << 16);
    b.At(x).set_slot_bytes(0);
    sends.push_back(b.Actor("a", 0, {}, {x}));
    fetches.push_back(b.Actor("b", 0, {{x}}, {}));
  }
  b.Stream("compute", 0, {{{b.Segment("F", 0, sends)}, 1}});
  b.Stream("copy", 0, {{{b.Segment("C", 0, fetches)}, 1}});
  Says(Verdict(b.Finish()), "has too many slots");
}

TEST_CASE("a workspace is its actor's own") {
  const auto verdict = [](auto&& edit) {
    PlanBuilder b;
    const int x = b.Register("x"), scratch = b.Register("scratch");
    b.Stream("compute", 0,
             {{{b.Segment("F", 0, {b.Actor("a", 0, {}, {x}), b.Actor("b", 0, {{x}}, {})})}, 2}});
    b.program().mutable_actor(0)->set_workspace(scratch);
    edit(b, scratch);
    return Verdict(b.Finish());
  };
  using B = PlanBuilder;
  CHECK(verdict([](B&, int) {}) == "good");
  Says(verdict([](B& b, int s) { b.program().mutable_actor(1)->set_workspace(s); }), "two writers");
  Says(verdict([](B& b, int s) { b.At(s).set_slots(2); }), "scratch has several buffers");
  const auto adds = [](B& b, int s) {
    b.At(s).set_fill_mode(proto::Register::ACCUMULATE), b.At(s).set_fires_per_fill(2);
  };
  Says(verdict(adds), "several firings a fill");
}

TEST_CASE("a workspace over what another stream still reads is refused") {
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y"), scratch = b.Register("scratch");
  const int a = b.Actor("a", 0, {}, {x}), c = b.Actor("c", 0, {}, {y});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {a, c})}, 2}});
  b.Stream("copy", 0, {{{b.Segment("C", 0, {b.Actor("send", 0, {{x}}, {})})}, 2}});
  b.program().mutable_actor(c)->set_workspace(scratch);
  b.At(x).set_offset(0), b.At(y).set_offset(64), b.At(scratch).set_offset(128);
  CHECK(Verdict(b.Finish()) == "good");
  b.At(scratch).set_offset(0);
  Says(Verdict(b.Finish()), "C of stage 0 reads x after scratch has overwritten it");
}

TEST_CASE("overlapping registers of two streams are refused") {
  PlanBuilder b;
  const int x = b.Register("x", 0, 2), y = b.Register("y");
  const int in = b.Segment("load", 0, {b.Actor("load", 0, {}, {x})});
  const int s = b.Segment("F", 0, {b.Actor("f", 0, {{x}}, {y}), b.Actor("g", 0, {{y}}, {})});
  b.Stream("compute", 0, {{{s}, 4}});
  b.Stream("host.in", 0, {{{in}, 4}});
  b.At(x).set_offset(0);
  b.At(y).set_offset(128);
  CHECK(Verdict(b.Finish()) == "good");
  b.At(y).set_offset(64);
  Says(Verdict(b.Finish()), "share bytes");
}

namespace {

// Two micro-batches in flight: x waits for the backward in frame n mod 2 and y, of which one at a
// time is live, lies behind it; z, of the backward, lies where `z_at` says in the same frame.
PlanBuilder Framed(int64_t z_at) {
  PlanBuilder b;
  const int x = b.Register("x", 0, 2), y = b.Register("y"), z = b.Register("z");
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x, y}), b.Actor("f2", 0, {{y}}, {})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{x}}, {z}), b.Actor("h", 0, {{z}}, {})});
  b.Stream("compute", 0, {{{f}, 1}, {{f, g}, 6}, {{g}, 1}});
  for (int id : {x, y, z}) b.At(id).set_buffers(2), b.At(id).set_stride(128);
  b.At(x).set_offset(0), b.At(y).set_offset(64), b.At(z).set_offset(z_at);
  return b;
}

}  // namespace

TEST_CASE("members of frames are held apart by buffer") {
  CHECK(Verdict(Framed(64).Finish()) == "good");
  Says(Verdict(Framed(0).Finish()), "registers x and z of stage 0 share bytes");
  // One buffer would be another micro-batch's as well.
  PlanBuilder b = Framed(64);
  b.At(2).set_buffers(0), b.At(2).set_stride(0);
  Says(Verdict(b.Finish()), "registers x and z of stage 0 have interleaved buffers");
}

TEST_CASE("a member may begin in another frame") {
  // z of a micro-batch lies behind x of the other, which waits: nothing else does at that time.
  PlanBuilder b = Framed(64);
  b.At(2).set_first_buffer(1);
  CHECK(Verdict(b.Finish()) == "good");
  b.At(2).set_offset(0);
  Says(Verdict(b.Finish()), "reads x after z has overwritten it");
  // A buffer further, y of a micro-batch is where x of the other waits.
  b = Framed(64);
  b.At(1).set_offset(0), b.At(1).set_first_buffer(1);
  Says(Verdict(b.Finish()), "reads x after y has overwritten it");
}

TEST_CASE("others have the bytes of frames only while no member holds any") {
  // w lies where x does: it is read in the update that writes it, or in the next step's.
  for (const int64_t w_at : {0, 64, 192}) {
    for (const bool stays : {false, true}) {
      PlanBuilder b = Framed(64);
      const int w = b.Register("w");
      b.At(w).set_offset(w_at);
      const int write = b.Actor("write", 0, {}, {w});
      const int read = b.Actor("read", 0, {{w, 1, stays ? 1 : 0}}, {});
      const std::vector<int> actors =
          stays ? std::vector<int>{read, write} : std::vector<int>{write, read};
      proto::OrderRun* run = b.program().mutable_stream(0)->add_order();
      run->add_segment(b.Segment("U", 0, actors));
      run->set_repeat(1);
      if (stays) {
        Says(MemoryVerdict(b.Finish()), "reads w after x has overwritten it");
      } else {
        CHECK(Verdict(b.Finish()) == "good");
      }
    }
  }
}

TEST_CASE("where a step fills each buffer once, others may have the buffer of what is over") {
  // Two micro-batches, both saved before the first is read. The backward writes w, which the update
  // reads, into bytes of the first; v, of the second backward, lies in the second.
  const auto plan = [](int64_t w_at, int64_t v_at, bool early) {
    PlanBuilder b;
    const int x = b.Register("x", 0, 2), w = b.Register("w"), v = b.Register("v");
    b.At(x).set_buffers(2), b.At(x).set_stride(128), b.At(x).set_offset(0);
    b.At(w).set_offset(w_at), b.At(v).set_offset(v_at);
    const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x})});
    const int read = b.Actor("read", 0, {{x}}, {v}), use = b.Actor("use", 0, {{v}}, {});
    const int g = b.Segment("B", 0, {read, use});
    const int first = b.Segment("P", 0, {b.Actor("first", 0, {}, {w})});
    const int update = b.Segment("U", 0, {b.Actor("update", 0, {{w}}, {})});
    if (early) {
      b.Stream("compute", 0, {{{f}, 2}, {{first}, 1}, {{g}, 2}, {{update}, 1}});
    } else {
      b.Stream("compute", 0, {{{f}, 2}, {{g}, 1}, {{first}, 1}, {{g}, 1}, {{update}, 1}});
    }
    return b.Finish();
  };
  CHECK(Verdict(plan(0, 64, false)) == "good");
  Says(MemoryVerdict(plan(0, 64, true)), "reads x after w has overwritten it");
  Says(MemoryVerdict(plan(128, 64, false)), "reads x after w has overwritten it");
  Says(MemoryVerdict(plan(0, 128, false)), "reads x after v has overwritten it");
  Says(MemoryVerdict(plan(0, 0, false)), "registers x and v of stage 0 share bytes");
}

TEST_CASE("where buffers drift, what is free in two steps may not be in the third") {
  // Three micro-batches are saved; w, for the update, takes the place of one that is over.
  const auto plan = [](int micro_batches, int64_t w_at) {
    PlanBuilder b;
    const int x = b.Register("x", 0, 3), w = b.Register("w");
    b.At(x).set_buffers(3), b.At(x).set_stride(64), b.At(x).set_offset(0);
    b.At(w).set_offset(w_at);
    const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x})});
    const int g = b.Segment("B", 0, {b.Actor("g", 0, {{x}}, {})});
    const int first = b.Segment("P", 0, {b.Actor("first", 0, {}, {w})});
    const int update = b.Segment("U", 0, {b.Actor("update", 0, {{w}}, {})});
    std::vector<std::pair<std::vector<int>, int>> order = {{{f}, 3}};
    if (micro_batches > 3) order.push_back({{g, f}, micro_batches - 3});
    for (const auto& run :
         {std::pair(g, 2), std::pair(first, 1), std::pair(g, 1), std::pair(update, 1)}) {
      order.push_back({{run.first}, run.second});
    }
    b.Stream("compute", 0, order);
    return b.Finish();
  };
  // With as many as buffers, the last is always in buffer 2.
  CHECK(Verdict(plan(3, 0)) == "good");
  CHECK(Verdict(plan(3, 64)) == "good");
  Says(MemoryVerdict(plan(3, 128)), "reads x after w has overwritten it");
  // With one more it is in 0, then 1, then 2: two steps alone would not tell of the third.
  for (const int64_t at : {0, 64, 128}) {
    Says(MemoryVerdict(plan(4, at)), "reads x after w has overwritten it");
  }
  CHECK(Verdict(plan(4, 192)) == "good");
}

TEST_CASE("who comes back to frames must know of all who had them in between") {
  // C takes x, uses the bytes of both frames for w and comes back with y. F, which writes x, has
  // been there, but hears of w only where it waits for C.
  for (const bool hears : {false, true}) {
    PlanBuilder b;
    const int x = b.Register("x", 0, 2), y = b.Register("y", 0, 2), w = b.Register("w");
    const int reported = b.Register("reported", 0, 2);
    for (int id : {x, y}) b.At(id).set_buffers(2), b.At(id).set_stride(128);
    b.At(x).set_offset(0), b.At(y).set_offset(64), b.At(w).set_offset(0);
    b.At(reported).set_slot_bytes(0);
    std::vector<PlanBuilder::In> hear;
    if (hears) hear.push_back({reported, 1, 1});
    const int f = b.Segment("F", 0, {b.Actor("f", 0, hear, {x})});
    const int c = b.Segment("C", 0,
                            {b.Actor("take", 0, {{x}}, {}), b.Actor("write", 0, {}, {w}),
                             b.Actor("read", 0, {{w}}, {}), b.Actor("back", 0, {}, {y, reported})});
    b.Stream("compute", 0, {{{f}, 5}});
    b.Stream("copy", 0, {{{c}, 5}});
    if (hears) {
      CHECK(Verdict(b.Finish()) == "good");
    } else {
      Says(
          MemoryVerdict(b.Finish()),
          "registers w and x of stage 0 share bytes, but F of stage 0 may write while C of stage 0 "
          "(write) still writes");
    }
  }
}

TEST_CASE("who writes a slot again knows what its reader had done when it returned it") {
  // y is over before C first reads x; v takes its bytes after the second fill of x, for which F has
  // waited for that read where x has one slot.
  const auto plan = [](int slots) {
    PlanBuilder b;
    const int x = b.Register("x", 0, slots), y = b.Register("y"), v = b.Register("v");
    b.At(x).set_offset(64), b.At(y).set_offset(0), b.At(v).set_offset(0);
    const int p = b.Segment("P", 0, {b.Actor("p", 0, {}, {y}), b.Actor("q", 0, {{y}}, {})});
    const int c = b.Segment("C", 0, {b.Actor("c", 0, {{x}}, {})});
    const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x})});
    const int g = b.Segment("G", 0, {b.Actor("g", 0, {}, {v}), b.Actor("h", 0, {{v}}, {})});
    b.Stream("compute", 0, {{{f}, 2}, {{g}, 1}, {{f}, 1}});
    b.Stream("copy", 0, {{{p}, 1}, {{c}, 3}});
    return b.Finish();
  };
  CHECK(Verdict(plan(1)) == "good");
  Says(MemoryVerdict(plan(2)), "registers y and v of stage 0 share bytes");
}

TEST_CASE("what was known once is not taken to be known for ever") {
  // y, of compute, and z, of copy, take turns in eight frames: z lies where y was six fills ago.
  // Copy hears of compute in the first twenty micro-batches only, so it is five more until it does
  // not know whether y is over.
  PlanBuilder b;
  const int y = b.Register("y"), z = b.Register("z"), back = b.Register("back", 0, 64);
  for (int id : {y, z}) {
    b.At(id).set_offset(0), b.At(id).set_buffers(8), b.At(id).set_stride(64);
  }
  b.At(z).set_first_buffer(2);
  b.At(back).set_slot_bytes(0);
  const int there = b.Register("there");
  const int write_y = b.Actor("write_y", 0, {{back, 1, 2}}, {y});
  const int read_y = b.Actor("read_y", 0, {{y}}, {});
  const int tell = b.Actor("tell", 0, {}, {there}), mute = b.Actor("mute", 0, {}, {});
  const int hear = b.Actor("hear", 0, {{there}}, {}), deaf = b.Actor("deaf", 0, {}, {});
  const int write_z = b.Actor("write_z", 0, {}, {z});
  const int read_z = b.Actor("read_z", 0, {{z}}, {back});
  b.Stream("compute", 0,
           {{{b.Segment("F", 0, {write_y, read_y}), b.Segment("T", 0, {tell})}, 20},
            {{b.program().segment(0).id(), b.Segment("M", 0, {mute})}, 20}});
  b.Stream("copy", 0,
           {{{b.Segment("H", 0, {hear}), b.Segment("C", 0, {write_z, read_z})}, 20},
            {{b.Segment("D", 0, {deaf}), b.program().segment(4).id()}, 20}});
  const proto::Plan plan = b.Finish();
  Says(MemoryVerdict(plan),
       "registers y and z of stage 0 share bytes, but C of stage 0 (write_z) may write while F of "
       "stage 0 (write_y) still writes");
  SkipCounts counts;
  CHECK(FirstBadSkip(*MakePlanNet(plan, plan.program(0)), &counts) == "");
  CHECK(counts.skips == 1);
}

namespace {

// The memory game of a plan with one stream, after so many firings.
struct Played {
  Played(proto::Plan p, int firings)
      : plan(std::move(p)),
        net(MakePlanNet(plan, plan.program(0)).value()),
        game(net, /*steps=*/1) {
    for (int i = 0; i < firings; ++i) REQUIRE(game.Fire(0).ok());
  }
  Played(const Played&) = delete;  // it points into itself
  Played& operator=(const Played&) = delete;

  const proto::Plan plan;
  const PlanNet net;
  HappensBefore game;
};

// a writes x and w, b reads them, c writes y.
proto::Plan Over(int64_t y_at, int64_t elements) {
  PlanBuilder b;
  const int x = b.Register("x"), w = b.Register("w"), y = b.Register("y", 0, 1, elements);
  b.At(x).set_offset(0), b.At(w).set_offset(64), b.At(y).set_offset(y_at);
  const int a = b.Actor("a", 0, {}, {x, w});
  const int read = b.Actor("b", 0, {{x}, {w}}, {}), c = b.Actor("c", 0, {}, {y});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {a, read, c})}, 3}});
  return b.Finish();
}

// f writes x, in frames, and u writes w.
proto::Plan BesideFrames(int64_t w_at) {
  PlanBuilder b;
  const int x = b.Register("x"), w = b.Register("w");
  b.At(x).set_offset(0), b.At(x).set_buffers(2), b.At(x).set_stride(64), b.At(w).set_offset(w_at);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x}), b.Actor("u", 0, {}, {w})});
  b.Stream("compute", 0, {{{f}, 3}});
  return b.Finish();
}

}  // namespace

TEST_CASE("a state is no better only if none of what it says is") {
  const auto no_better = [](const Played& a, const Played& b) {
    return a.game.NoBetterThan(b.game);
  };
  const Played early(Over(128, 16), 3), late(Over(128, 16), 6);
  CHECK(no_better(early, early));
  CHECK_FALSE(no_better(late, early));  // it knows more
  CHECK_FALSE(no_better(early, late));  // registers were touched earlier
  // Once y has had the bytes of x, or of w, only the next fill is valid, of that one.
  const Played over_x(Over(0, 16), 4), over_w(Over(64, 16), 4);
  CHECK_FALSE(no_better(over_x, over_w));
  CHECK_FALSE(no_better(over_w, over_x));
  // Who has lost all holds no more than who has lost some, but y has what w should have.
  const Played lost_x(Over(0, 16), 3), lost_both(Over(0, 32), 3);
  CHECK_FALSE(no_better(lost_both, lost_x));
  // x is lost in the first, but who writes it next must know that w is over.
  const Played inside(BesideFrames(0), 2), outside(BesideFrames(128), 2);
  CHECK_FALSE(no_better(inside, outside));
}

TEST_CASE("more buffers than fills a step are refused") {
  PlanBuilder b = Framed(64);
  for (int id : {0, 1, 2}) b.At(id).set_buffers(8);
  Says(Verdict(b.Finish()), "register x: 8 buffers, but 7 fills a step");
}

TEST_CASE("a register that loses its content before it is read is refused") {
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y");
  const int s = b.Segment(
      "F", 0,
      {b.Actor("a", 0, {}, {x}), b.Actor("b", 0, {}, {y}), b.Actor("c", 0, {{x}, {y}}, {})});
  b.Stream("compute", 0, {{{s}, 1}});
  b.At(x).set_offset(0);
  b.At(y).set_offset(0);
  Says(Verdict(b.Finish()), "reads x after y has overwritten it");
}

TEST_CASE("a plan that sticks is no safe one, either") {
  Says(MemoryVerdict(ForwardBackward(1)), "the second step does not finish");
}

}  // namespace oneflow
