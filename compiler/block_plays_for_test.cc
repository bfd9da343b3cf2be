#include "compiler/block_plays_for_test.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {
namespace {

// Counts, stage by stage, what is written and not yet returned.
class Held {
 public:
  Held(const PlanNet& net, std::string_view prefix) : net_(net), prefix_(prefix) {
    now_.resize(net.plan->memory_size());
  }
  void Begin(int actor) {
    for (const int id : net_.outputs_of(actor)) {
      if (!Counts(id)) continue;
      most_ = std::max(most_, ++now_[net_.actors[actor].stage]);
    }
  }
  void End(int actor) {
    for (const NetInput& input : net_.inputs_of(actor)) {
      if (Counts(input.reg)) --now_[net_.actors[actor].stage];
    }
  }
  int most() const { return most_; }

 private:
  // Each of these has one reader; of a block's tensors the first counts.
  bool Counts(int id) const {
    const std::string& name = net_.registers[id].proto->name();
    return net_.registers[id].proto->slot_bytes() > 0 && absl::StartsWith(name, prefix_) &&
           !absl::StrContains(name, "+");
  }

  const PlanNet& net_;
  const std::string prefix_;
  std::vector<int> now_;
  int most_ = 0;
};

BuiltBlocks WithSeconds(std::string_view kernel, double seconds, BuiltBlocks built) {
  for (const proto::Actor& actor : built.plan.program(0).actor()) {
    if (actor.kernel() == kernel) built.seconds[actor.id()] = seconds;
  }
  return built;
}

}  // namespace

PlayedBlocks PlayBlocks(const BuiltBlocks& built) {
  const absl::StatusOr<PlanNet> net = MakePlanNet(built.plan, built.plan.program(0));
  if (!net.ok()) return {};
  Held gathered(*net, "w."), gradients(*net, "g.");
  const double seconds = PlayByClock(
      *net, built.seconds,
      [&](int actor, double) {
        gathered.Begin(actor);
        gradients.Begin(actor);
      },
      [&](int actor, double) {
        gathered.End(actor);
        gradients.End(actor);
      });
  return {seconds, gathered.most(), gradients.most()};
}

int MostGathered(const BuiltBlocks& built) {
  return PlayBlocks(WithSeconds("all_gather", 0, built)).most_gathered;
}

int MostGradients(const BuiltBlocks& built) {
  return PlayBlocks(WithSeconds("reduce_scatter", 1000, built)).most_gradients;
}

double ArenaBlocks(const BuiltBlocks& built) {
  std::vector<int64_t> bytes;
  for (const proto::StageMemory& memory : built.plan.memory()) {
    bytes.push_back(memory.register_bytes());
  }
  for (const proto::Register& r : built.plan.program(0).register_()) {
    const bool lasts = absl::StartsWith(r.name(), "part.") || absl::StartsWith(r.name(), "sum.");
    if (lasts) bytes[r.stage()] -= r.slot_bytes();
  }
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / kBlockBytes;
}

BuiltBlocks MoveIntoTurns(BuiltBlocks built, int ahead) {
  proto::Program& program = *built.plan.mutable_program(0);
  for (const auto& [id, at] : built.in_turn) {
    proto::Register& r = *program.mutable_register_(id);
    r.set_offset(built.plan.memory(r.stage()).register_bytes() + at);
    r.clear_buffers();
    r.clear_stride();
    r.clear_first_buffer();
  }
  for (proto::StageMemory& memory : *built.plan.mutable_memory()) {
    memory.set_register_bytes(memory.register_bytes() + (ahead + 1) * kBlockBytes);
    memory.set_arena_bytes(memory.arena_bytes() + (ahead + 1) * kBlockBytes);
  }
  return built;
}

Schedule DrawSchedule(std::mt19937* random, int stages, int chunks, int micro_batches,
                      bool splits_backward) {
  Schedule schedule{"drawn"};
  schedule.chunks = chunks;
  schedule.splits_backward = splits_backward;
  schedule.written.resize(stages);
  schedule.written_for = micro_batches;
  const int positions = stages * chunks;
  // Micro-batches that have passed, by position.
  std::vector<int> forward(positions), backward(positions), weights(positions);
  for (;;) {
    std::vector<std::pair<int, Part>> may;
    for (int p = 0; p < positions; ++p) {
      const int arrived = p == 0 ? micro_batches : forward[p - 1];
      const int back = p + 1 == positions ? forward[p] : backward[p + 1];
      if (forward[p] < arrived) may.emplace_back(p, Part::kForward);
      if (backward[p] < std::min(forward[p], back)) may.emplace_back(p, Part::kBackward);
      if (splits_backward && weights[p] < backward[p]) may.emplace_back(p, Part::kWeights);
    }
    if (may.empty()) return schedule;
    const auto [p, part] = may[(*random)() % may.size()];
    ++(part == Part::kForward ? forward : part == Part::kBackward ? backward : weights)[p];
    Append({{{part, p / stages}}, 1}, &schedule.written[p % stages]);
  }
}

}  // namespace oneflow
