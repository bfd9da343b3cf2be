// The proof of liveness against what happens. Compiled plans are mutated: slots, rates, initial
// fills, orders of streams and of issue, partners, control edges. For each mutant the verdict
// (live, stuck, inconsistent) must be what the deterministic runtime then does in 4 steps under 5
// interleavings where each device issues its exchanges in the plan's order; and where the proof
// says that it sticks, there the runtime must stand. What is live must also finish where every
// stream begins what is ready; what sticks may finish so, and is refused all the same: it is
// counted. 10,000 mutants with ONEFLOW_TEST_FULL, else 500.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actor_runtime/exec/deterministic_runtime.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/verify/verify_liveness.h"
#include "oneflow_core/verify/verify_types.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 4;
constexpr uint64_t kInterleavings = 5;

// Tokens only: what is fuzzed is who waits for whom, so registers lose their bytes and actors their
// kernels, and nothing but rates, orders and edges is left to be wrong. What exchanges touch keeps
// its bytes, for which there is room enough.
proto::Plan Skeleton(const SmallRun& run) {
  proto::Plan plan = CompileSmall(run);
  const proto::Program train = *std::find_if(plan.program().begin(), plan.program().end(),
                                             [](const auto& p) { return p.name() == "train"; });
  plan.clear_program();
  *plan.add_program() = train;
  std::set<int> exchanged;
  for (const proto::Actor& a : plan.program(0).actor()) {
    if (!a.has_exchange()) continue;
    for (const proto::Input& input : a.input()) exchanged.insert(input.register_());
    exchanged.insert(a.output().begin(), a.output().end());
  }
  for (proto::Register& r : *plan.mutable_persistent()) {
    if (!exchanged.contains(r.id())) r.set_slot_bytes(0);
  }
  for (proto::Register& r : *plan.mutable_program(0)->mutable_register_()) {
    if (!exchanged.contains(r.id())) r.set_slot_bytes(0);
    r.clear_places(), r.clear_stride(), r.clear_first_place();
  }
  for (proto::StageMemory& memory : *plan.mutable_memory()) {
    memory.set_register_bytes(int64_t{1} << 40);
    memory.set_arena_bytes(memory.persistent_bytes() + memory.register_bytes());
  }
  for (proto::Actor& a : *plan.mutable_program(0)->mutable_actor()) a.clear_workspace();
  return plan;
}

struct Base {
  proto::Plan plan;
  bool exchanges = false;
};

std::vector<Base> Bases() {
  std::vector<Base> bases;
  const auto add = [&](int layers, const std::string& mesh, const std::string& schedule) {
    SmallRun run;
    run.model.layers = layers;
    run.mesh = mesh;
    run.schedule = schedule;
    run.batch = 12;
    run.micro_batches = 3;
    Base base{Skeleton(run)};
    for (proto::Actor& a : *base.plan.mutable_program(0)->mutable_actor()) {
      base.exchanges = base.exchanges || a.has_exchange();
      a.clear_attr();
      if (a.has_exchange()) continue;
      a.clear_kernel();
      a.clear_boxing();
    }
    bases.push_back(std::move(base));
  };
  add(1, "", "1f1b");
  add(1, "tensor=2", "1f1b");
  add(1, "data=2", "1f1b");
  add(2, "pipe=2", "1f1b");
  add(2, "pipe=2", "gpipe");
  add(3, "pipe=3", "1f1b");
  return bases;
}

enum class Verdict { kLive, kStuck, kInconsistent };

struct Judgement {
  Verdict verdict = Verdict::kLive;
  std::string why;
};

Judgement Judge(const proto::Plan& plan) {
  const auto inconsistent = [](const absl::Status& s) {
    return Judgement{Verdict::kInconsistent, s.ToString()};
  };
  const auto net = MakePlanNet(plan, plan.program(0));
  if (!net.ok()) return inconsistent(net.status());
  if (const absl::Status s = VerifyProgramTypes(*net); !s.ok()) return inconsistent(s);
  const absl::Status s = VerifyLiveness(*net);
  return {s.ok() ? Verdict::kLive : Verdict::kStuck, std::string(s.message())};
}

// Edits of a plan, drawn from a seed.
class Mutator {
 public:
  Mutator(const Base& base, uint64_t seed)
      : base_(base), plan_(base.plan), program_(*plan_.mutable_program(0)), random_(seed) {}

  const proto::Plan& plan() const { return plan_; }

  void Edit() {
    switch (Below(8)) {
      case 0: return ChangeSlots();
      case 1: return ChangeRate();
      case 2: return ChangeInitialFills();
      case 3: return SwapSegments();
      case 4: return SwapActors();
      case 5: return ChangeRepeat();
      case 6: return ChangeExchange();
      default: return AddControlEdge();
    }
  }

  // An edge without bytes between two actors of a device that fire equally often.
  void AddControlEdge() {
    const PlanNet net = *MakePlanNet(base_.plan, base_.plan.program(0));
    int a = 0, b = 0;
    do {
      a = AnyActor(), b = AnyActor();
    } while (a == b || net.actors[a].firings != net.actors[b].firings ||
             net.actors[a].stage != net.actors[b].stage);
    Join(a, b, DrawEdge());
  }

  // Two edges that go against each other: a2 -> b1 and b2 -> a1, where a1 comes before a2 in one
  // stream and b1 before b2 in another of the device. False if the draw has no such actors.
  bool AddCrossedEdges(bool first, bool second) {
    const PlanNet net = *MakePlanNet(base_.plan, base_.plan.program(0));
    const int x = Below(net.streams.size()), y = Below(net.streams.size());
    if (x == y || net.streams[x].proto->stage() != net.streams[y].proto->stage()) return false;
    const int64_t firings = Below(2) == 0 ? 1 : base_.plan.program(0).micro_batches();
    const std::vector<int> a = InTurn(net, x, firings), b = InTurn(net, y, firings);
    if (a.size() < 2 || b.size() < 2) return false;
    const int a1 = Below(a.size() - 1), b1 = Below(b.size() - 1);
    const int a2 = a1 + 1 + Below(a.size() - a1 - 1), b2 = b1 + 1 + Below(b.size() - b1 - 1);
    const Edge forth = DrawEdge(), back = DrawEdge();
    if (first) Join(a[a2], b[b1], forth);
    if (second) Join(b[b2], a[a1], back);
    return true;
  }

  // Two exchanges change places in the order in which a device issues them, or one comes sooner.
  bool ChangeIssue() {
    if (program_.issue_size() == 0) return false;
    proto::IssueOrder& order = *program_.mutable_issue(Below(program_.issue_size()));
    std::vector<int> actors;
    for (const proto::ActorRun& run : order.run()) {
      for (int i = 0; i < run.repeat(); ++i) {
        actors.insert(actors.end(), run.actor().begin(), run.actor().end());
      }
    }
    const int i = Below(actors.size()), j = Below(actors.size());
    if (actors[i] == actors[j]) return false;
    if (Below(2) == 0) {
      std::swap(actors[i], actors[j]);
    } else {
      const auto first = actors.begin() + std::min(i, j), later = actors.begin() + std::max(i, j);
      std::rotate(first, later, later + 1);
    }
    order.clear_run();
    for (const int actor : actors) {
      proto::ActorRun* run = order.add_run();
      run->add_actor(actor);
      run->set_repeat(1);
    }
    return true;
  }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }
  struct Edge {
    int slots, initial_fills;
  };
  Edge DrawEdge() {
    const int slots = 1 + Below(2);
    return {slots, Below(4) == 0 ? 1 : 0};
  }
  // b waits for a.
  void Join(int a, int b, const Edge& edge) {
    proto::Register* control = program_.add_register_();
    control->set_id(plan_.persistent_size() + program_.register__size() - 1);
    control->set_name("control");
    control->set_stage(program_.actor(a).stage());
    control->set_slots(edge.slots);
    control->set_fires_per_fill(1);
    program_.mutable_actor(a)->add_output(control->id());
    proto::Input* input = program_.mutable_actor(b)->add_input();
    input->set_register_(control->id());
    input->set_fires_per_read(1);
    input->set_initial_fills(edge.initial_fills);
  }

  // Actors of a stream that fire so often, in the order in which they first do.
  static std::vector<int> InTurn(const PlanNet& net, int stream, int64_t firings) {
    std::vector<int> actors;
    for (const int actor : Unrolled(net.streams[stream])) {
      if (net.actors[actor].firings != firings) continue;
      if (std::find(actors.begin(), actors.end(), actor) == actors.end()) actors.push_back(actor);
    }
    return actors;
  }
  int AnyActor() { return Below(program_.actor_size()); }
  // Of those that somebody writes: workspaces are nobody's any more.
  proto::Register& AnyRegister() {
    for (;;) {
      proto::Register& r = *program_.mutable_register_(Below(program_.register__size()));
      const auto writes = [&](const proto::Actor& a) {
        return std::find(a.output().begin(), a.output().end(), r.id()) != a.output().end();
      };
      if (std::any_of(program_.actor().begin(), program_.actor().end(), writes)) return r;
    }
  }
  proto::Input* AnyInput() {
    for (;;) {
      proto::Actor& a = *program_.mutable_actor(AnyActor());
      if (a.input_size() > 0) return a.mutable_input(Below(a.input_size()));
    }
  }
  proto::Stream& AnyStream() { return *program_.mutable_stream(Below(program_.stream_size())); }

  void ChangeSlots() {
    proto::Register& r = AnyRegister();
    r.set_slots(std::max(1, r.slots() + (Below(3) == 0 ? 1 : -1)));
  }
  void ChangeRate() {
    if (Below(2) == 0) {
      proto::Register& r = AnyRegister();
      return r.set_fires_per_fill(std::max(1, r.fires_per_fill() + (Below(2) == 0 ? 1 : -1)));
    }
    proto::Input* input = AnyInput();
    input->set_fires_per_read(std::max(1, input->fires_per_read() + (Below(2) == 0 ? 1 : -1)));
  }
  void ChangeInitialFills() {
    proto::Input* input = AnyInput();
    input->set_initial_fills(input->initial_fills() == 0 ? 1 : 0);
  }
  // In an order, or between two runs of it.
  void SwapSegments() {
    proto::Stream& stream = AnyStream();
    proto::OrderRun& run = *stream.mutable_order(Below(stream.order_size()));
    proto::OrderRun& other = *stream.mutable_order(Below(stream.order_size()));
    const int i = Below(run.segment_size()), j = Below(other.segment_size());
    const int a = run.segment(i), b = other.segment(j);
    run.set_segment(i, b);
    other.set_segment(j, a);
  }
  void SwapActors() {
    proto::Segment& segment = *program_.mutable_segment(Below(program_.segment_size()));
    if (segment.actor_size() < 2) return SwapSegments();
    const int i = Below(segment.actor_size() - 1);
    segment.mutable_actor()->SwapElements(i, std::min(i + 1 + Below(3), segment.actor_size() - 1));
  }
  void ChangeRepeat() {
    proto::Stream& stream = AnyStream();
    proto::OrderRun& run = *stream.mutable_order(Below(stream.order_size()));
    run.set_repeat(std::max(1, run.repeat() + (Below(2) == 0 ? 1 : -1)));
  }
  // The order of issue; or two sends to the same stage change partners, or an exchange is not
  // issued.
  void ChangeExchange() {
    if (!base_.exchanges) return ChangeSlots();
    const int kind = Below(4);
    if (kind == 0 && SwapPartners()) return;
    if (kind == 1) {
      proto::IssueOrder& order = *program_.mutable_issue(Below(program_.issue_size()));
      auto* actors = order.mutable_run(Below(order.run_size()))->mutable_actor();
      actors->erase(actors->begin() + Below(actors->size()));
      return;
    }
    for (int tries = 0; tries < 20 && !ChangeIssue();) ++tries;
  }

  bool SwapPartners() {
    for (int tries = 0; tries < 50; ++tries) {
      proto::Actor &a = *program_.mutable_actor(AnyActor()),
                   &b = *program_.mutable_actor(AnyActor());
      if (a.id() == b.id() || a.stage() != b.stage() || !a.exchange().has_partner() ||
          !b.exchange().has_partner() || a.exchange().group() != b.exchange().group()) {
        continue;
      }
      proto::Actor &x = *program_.mutable_actor(a.exchange().partner()),
                   &y = *program_.mutable_actor(b.exchange().partner());
      a.mutable_exchange()->set_partner(y.id()), b.mutable_exchange()->set_partner(x.id());
      x.mutable_exchange()->set_partner(b.id()), y.mutable_exchange()->set_partner(a.id());
      return true;
    }
    return false;
  }

  const Base& base_;
  proto::Plan plan_;
  proto::Program& program_;
  std::mt19937_64 random_;
};

// What happens: kInconsistent is a run that ends, but not at the marking it began with, or that
// sticks in a later step.
struct Outcome {
  bool ok = false;
  std::string message;
};

Outcome RunAll(const proto::Plan& plan, bool in_order) {
  DeterministicOptions options;
  options.prove = false;
  options.in_order = in_order;
  auto runtime = DeterministicRuntime::Create(plan, options);
  if (!runtime.ok()) return {false, runtime.status().ToString()};
  Outcome first;
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    const absl::Status s = (*runtime)->Run("train", {}, kSteps, seed);
    Outcome outcome{s.ok(), std::string(s.message())};
    if (seed == 0) first = outcome;
    // A conflict-free net sticks after the same firings, whatever the order.
    INFO("interleaving " << seed << ": " << outcome.message);
    REQUIRE(outcome.ok == first.ok);
    REQUIRE(outcome.message == first.message);
  }
  return first;
}

// The place at which the proof's story begins, as the runtime says it.
std::string StandsAt(const proto::Plan& plan, const std::string& story) {
  const auto net = MakePlanNet(plan, plan.program(0));
  int actor = -1;
  for (int a = 0; a < plan.program(0).actor_size(); ++a) {
    const std::string name = net->NameOf(a);
    if (story.find(": " + name + " in micro-batch ") != std::string::npos) actor = a;
  }
  REQUIRE(actor >= 0);
  return "actor " + plan.program(0).actor(actor).name() + " at rank";
}

struct Counts {
  int live = 0, stuck = 0, inconsistent = 0, by_two_edges = 0, by_issue = 0;
  int only_free = 0;  // stuck, but for devices that begin what is ready
};

void Check(const proto::Plan& plan, const Judgement& judgement, Counts* counts) {
  INFO(judgement.why);
  const Outcome outcome = RunAll(plan, /*in_order=*/true);
  INFO("runtime: " << outcome.message);
  switch (judgement.verdict) {
    case Verdict::kLive:
      ++counts->live;
      REQUIRE(outcome.ok);
      REQUIRE(RunAll(plan, /*in_order=*/false).ok);
      break;
    case Verdict::kStuck:
      ++counts->stuck;
      counts->only_free += RunAll(plan, /*in_order=*/false).ok;
      REQUIRE(outcome.message.find(" is stuck after ") != std::string::npos);
      REQUIRE(outcome.message.find(StandsAt(plan, judgement.why)) != std::string::npos);
      break;
    case Verdict::kInconsistent:
      ++counts->inconsistent;
      REQUIRE_FALSE(outcome.ok);
      break;
  }
}

// A mutant that two control edges together make stick; each alone leaves it live.
std::optional<proto::Plan> DeadByTwoEdges(const Base& base, uint64_t seed) {
  for (uint64_t tries = 0; tries < 150; ++tries) {
    const auto with = [&](bool first, bool second) {
      Mutator m(base, seed * 1000 + tries);
      return m.AddCrossedEdges(first, second) ? Judge(m.plan()).verdict : Verdict::kInconsistent;
    };
    if (with(true, true) != Verdict::kStuck || with(true, false) != Verdict::kLive ||
        with(false, true) != Verdict::kLive) {
      continue;
    }
    Mutator m(base, seed * 1000 + tries);
    m.AddCrossedEdges(true, true);
    return m.plan();
  }
  return std::nullopt;
}

std::optional<proto::Plan> DeadByIssue(const Base& base, uint64_t seed) {
  for (uint64_t tries = 0; tries < 50; ++tries) {
    Mutator m(base, seed * 1000 + tries);
    if (!m.ChangeIssue()) continue;
    if (Judge(m.plan()).verdict == Verdict::kStuck) return m.plan();
  }
  return std::nullopt;
}

TEST_CASE("The verdict on mutated plans is what then happens") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int mutants = full ? 10000 : 500;
  const std::vector<Base> bases = Bases();
  for (const Base& base : bases) {
    const Judgement judgement = Judge(base.plan);
    INFO(judgement.why);
    REQUIRE(judgement.verdict == Verdict::kLive);
  }
  Counts counts;
  for (int i = 0; i < mutants; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    INFO("mutant " << i);
    std::optional<proto::Plan> plan;
    const int kind = i % 20;
    // Edges cross between streams of a device, and one device alone has no exchanges.
    const Base& base = kind < 5   ? bases[3 + i % 3]
                       : kind < 8 ? bases[1 + i % 5]
                                  : bases[i % bases.size()];
    if (kind < 5 && (plan = DeadByTwoEdges(base, seed))) {
      ++counts.by_two_edges;
    } else if (kind >= 5 && kind < 8 && (plan = DeadByIssue(base, seed))) {
      ++counts.by_issue;
    } else {
      Mutator m(base, seed);
      for (int edits = i % 3 == 0 ? 2 : 1; edits > 0; --edits) m.Edit();
      plan = m.plan();
    }
    Check(*plan, Judge(*plan), &counts);
  }
  INFO("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent << ", by two edges " << counts.by_two_edges
               << ", by the order of issue " << counts.by_issue << ", which free devices finish "
               << counts.only_free);
  CHECK(counts.live * 4 >= mutants);
  CHECK(counts.stuck * 4 >= mutants);
  CHECK(counts.by_two_edges * 100 >= mutants);
  CHECK(counts.by_issue * 10 >= mutants);
}

}  // namespace
}  // namespace oneflow
