#include "tests/e2e/mutants.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/verify/verify_plan.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

// Tokens only: what is fuzzed is who waits for whom, so registers lose their bytes and actors their
// kernels, and nothing but rates, orders and edges is left to be wrong. Registers of exchanges keep
// their bytes, all in one buffer that is large enough.
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
    if (a.has_workspace()) exchanged.insert(a.workspace());
  }
  for (proto::Register& r : *plan.mutable_persistent()) {
    if (!exchanged.contains(r.id())) r.set_slot_bytes(0);
  }
  for (proto::Register& r : *plan.mutable_program(0)->mutable_register_()) {
    if (!exchanged.contains(r.id())) r.set_slot_bytes(0);
    r.clear_buffers(), r.clear_stride(), r.clear_first_buffer();
    r.set_offset(plan.memory(ArenaIndex(r, StageCount(plan))).persistent_bytes());
  }
  for (proto::StageMemory& memory : *plan.mutable_memory()) {
    memory.set_register_bytes(1 << 20);
    memory.set_arena_bytes(memory.persistent_bytes() + memory.register_bytes());
  }
  for (proto::Actor& a : *plan.mutable_program(0)->mutable_actor()) {
    if (!a.has_exchange()) a.clear_workspace();
  }
  return plan;
}

}  // namespace

namespace {

Base MakeBase(const SmallRun& run) {
  Base base{Skeleton(run)};
  for (proto::Actor& a : *base.plan.mutable_program(0)->mutable_actor()) {
    base.exchanges = base.exchanges || a.has_exchange();
    a.clear_attr();
    if (a.has_exchange()) continue;
    a.clear_kernel();
    a.clear_boxing();
  }
  return base;
}

SmallRun MakeRun(int layers, const std::string& mesh, const std::string& schedule) {
  SmallRun run;
  run.model.set_layers(layers);
  run.Set("mesh", mesh);
  run.recipe.set_schedule(schedule);
  run.Set("--batch=12 --micro_batches=3");
  return run;
}

}  // namespace

std::vector<Base> Bases(proto::DeviceKind device) {
  std::vector<Base> bases;
  const auto add = [&](int layers, const std::string& mesh, const std::string& schedule) {
    SmallRun run = MakeRun(layers, mesh, schedule);
    run.recipe.set_device(device);
    bases.push_back(MakeBase(run));
  };
  add(1, "", "1f1b");
  add(1, "tensor=2", "1f1b");
  add(1, "data=2", "1f1b");
  add(2, "pipe=2", "1f1b");
  add(2, "pipe=2", "gpipe");
  add(3, "pipe=3", "1f1b");
  return bases;
}

std::vector<Base> BasesWithGathersAhead(proto::DeviceKind device) {
  std::vector<Base> bases;
  const auto add = [&](int layers, const std::string& mesh, const std::string& schedule, int ahead,
                       proto::DataType precision = proto::F32) {
    SmallRun run = MakeRun(layers, mesh, schedule);
    run.recipe.set_precision(precision);
    run.recipe.set_device(device);
    run.Set("--overlap --shard=weights");
    run.recipe.set_prefetch(ahead);
    bases.push_back(MakeBase(run));
  };
  add(5, "data=2", "1f1b", 1);
  add(8, "pipe=2,data=2", "1f1b", 1);
  add(8, "pipe=2,data=2", "zero_bubble", 2);
  add(5, "data=2", "1f1b", 1, proto::BF16);  // casts on the stream of gathers
  return bases;
}

std::vector<Base> BasesWithOffload(proto::DeviceKind device) {
  std::vector<Base> bases;
  const auto add = [&](int layers, const std::string& mesh, const char* offload,
                       bool update_on_host) {
    SmallRun run = MakeRun(layers, mesh, "1f1b");
    run.recipe.set_device(device);
    run.Set("--overlap --prefetch=1");
    run.Set("offload", offload);
    run.recipe.set_update_on(update_on_host ? proto::UPDATE_ON_HOST : proto::UPDATE_ON_DEVICE);
    bases.push_back(MakeBase(run));
  };
  add(6, "pipe=2", "activations:all,states", false);
  add(3, "data=2", "activations:all,weights", true);
  add(4, "", "activations:all,states,weights", false);
  return bases;
}

std::string FindBlocked(const proto::Plan& plan, const std::string& story) {
  const auto net = MakePlanNet(plan, plan.program(0));
  std::string first;
  for (int a = 0; a < plan.program(0).actor_size(); ++a) {
    if (story.find(": " + net->ActorName(a) + " in micro-batch ") == std::string::npos) continue;
    first = "actor " + plan.program(0).actor(a).name() + " at rank";
  }
  return first;
}

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

namespace {

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

  // Two exchanges are swapped in the order in which a device issues them, or one comes sooner.
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
  // One of the registers with a writer: workspaces have none any more.
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

}  // namespace

namespace {

struct Credit {
  int writer = 0, reg = 0;
};

// Of the gathers of one segment, in order, the credits that come from the same micro-batch.
std::vector<std::vector<Credit>> FindCredits(const proto::Program& program, int persistent) {
  std::vector<std::vector<Credit>> found;
  for (const proto::Segment& segment : program.segment()) {
    std::vector<Credit>& credits = found.emplace_back();
    for (const int gather : segment.actor()) {
      const auto& inputs = program.actor(gather).input();
      const int reg = inputs.empty() ? -1 : inputs.rbegin()->register_() - persistent;
      if (reg < 0 || inputs.rbegin()->initial_fills() > 0) continue;
      if (!program.register_(reg).name().ends_with(".credit")) continue;
      for (const proto::Actor& writer : program.actor()) {
        for (const int output : writer.output()) {
          if (output == reg + persistent) credits.push_back({writer.id(), output});
        }
      }
    }
    if (credits.size() < 2) found.pop_back();
  }
  return found;
}

}  // namespace

CreditMutant MakeCreditMutant(const std::vector<Base>& bases, int number) {
  const Base& base = bases[number % bases.size()];
  const auto seed = static_cast<uint64_t>(number);
  CreditMutant mutant{base.plan};
  if (number % 2 == 0) {
    Mutator m(base, seed);
    m.Edit();
    mutant.plan = m.plan();
    return mutant;
  }
  proto::Program& program = *mutant.plan.mutable_program(0);
  const auto all = FindCredits(program, mutant.plan.persistent_size());
  std::mt19937_64 random(seed);
  const std::vector<Credit>& credits = all[random() % all.size()];
  const size_t moved = random() % credits.size();
  size_t to = moved;
  while (to == moved) to = random() % credits.size();
  auto* outputs = program.mutable_actor(credits[moved].writer)->mutable_output();
  outputs->erase(std::find(outputs->begin(), outputs->end(), credits[moved].reg));
  program.mutable_actor(credits[to].writer)->add_output(credits[moved].reg);
  mutant.late = static_cast<int>(to) - static_cast<int>(moved);
  return mutant;
}

Mutant MakeMutant(const std::vector<Base>& bases, int number) {
  const auto seed = static_cast<uint64_t>(number);
  const int kind = number % 20;
  // Edges cross between streams of a device, and one device alone has no exchanges.
  const Base& base = kind < 5   ? bases[3 + number % 3]
                     : kind < 8 ? bases[1 + number % 5]
                                : bases[number % bases.size()];
  if (kind < 5) {
    if (const auto plan = DeadByTwoEdges(base, seed)) return {*plan, Mutant::kByTwoEdges};
  } else if (kind < 8) {
    if (const auto plan = DeadByIssue(base, seed)) return {*plan, Mutant::kByIssue};
  }
  Mutator m(base, seed);
  for (int edits = number % 3 == 0 ? 2 : 1; edits > 0; --edits) m.Edit();
  return {m.plan()};
}

}  // namespace oneflow
