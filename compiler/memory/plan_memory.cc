#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/lower_bound.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_net.h"
#include "oneflow_core/plan/plan_text.h"

namespace oneflow {
namespace {

// Offsets of the registers, in the order of `lives`; also the bytes all of them take.
std::pair<std::vector<int64_t>, int64_t> FirstFit(const std::vector<Lifetime>& lives) {
  std::vector<int> order(lives.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return lives[a].bytes > lives[b].bytes; });
  std::vector<int64_t> offset(lives.size(), 0);
  std::vector<int> placed;
  int64_t total = 0;
  for (int i : order) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (int other : placed) {
      if (Meet(lives[i].spans, lives[other].spans)) {
        taken.emplace_back(offset[other], offset[other] + lives[other].bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= lives[i].bytes) break;
      at = std::max(at, end);
    }
    offset[i] = at;
    total = std::max(total, at + lives[i].bytes);
    placed.push_back(i);
  }
  return {std::move(offset), total};
}

void PlacePersistent(int stages, proto::Plan* plan) {
  for (int s = 0; s < stages; ++s) plan->add_memory()->set_stage(s);
  for (proto::Register& r : *plan->mutable_persistent()) {
    proto::StageMemory& memory = *plan->mutable_memory(r.stage());
    r.set_offset(memory.persistent_bytes());
    memory.set_persistent_bytes(memory.persistent_bytes() + r.slots() * r.slot_bytes());
  }
}

absl::Status PlaceProgram(int stages, proto::Plan* plan, proto::Program* program) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(*plan, *program));
  const std::vector<int64_t> bound = LowerBound(net, stages);
  ASSIGN_OR_RETURN(const std::vector<StageLifetimes> lifetimes, LifetimesOf(net, stages));
  for (int s = 0; s < stages; ++s) {
    const StageLifetimes& stage = lifetimes[s];
    const auto [offsets, bytes] = FirstFit(stage.registers);
    proto::StageMemory& memory = *plan->mutable_memory(s);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const int own = stage.registers[i].reg - plan->persistent_size();
      program->mutable_register_(own)->set_offset(memory.persistent_bytes() + offsets[i]);
    }
    memory.set_register_bytes(std::max(memory.register_bytes(), bytes));
    memory.set_lower_bound_bytes(std::max(memory.lower_bound_bytes(), bound[s]));
  }
  for (const proto::Actor& actor : program->actor()) {
    proto::StageMemory& memory = *plan->mutable_memory(actor.stage());
    memory.set_workspace_bytes(std::max(memory.workspace_bytes(), actor.workspace_bytes()));
  }
  return absl::OkStatus();
}

std::string LargestRegisters(const proto::Plan& plan, int stage) {
  std::vector<std::pair<int64_t, const proto::Register*>> sizes;
  const auto add = [&](const proto::Register& r) {
    if (r.stage() == stage) sizes.emplace_back(r.slots() * r.slot_bytes(), &r);
  };
  for (const proto::Register& r : plan.persistent()) add(r);
  for (const proto::Program& program : plan.program()) {
    if (program.name() == "train" || plan.program_size() == 1) {
      for (const proto::Register& r : program.register_()) add(r);
    }
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, sizes.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", sizes[i].second->name(), " (",
                    sizes[i].second->slots(), " x ", BytesText(sizes[i].second->slot_bytes()), ")");
  }
  return text;
}

}  // namespace

absl::Status PlanMemory(int stages, proto::Plan* plan) {
  PlacePersistent(stages, plan);
  for (int i = 0; i < plan->program_size(); ++i) {
    RETURN_IF_ERROR(PlaceProgram(stages, plan, plan->mutable_program(i)));
  }
  for (proto::StageMemory& memory : *plan->mutable_memory()) {
    memory.set_arena_bytes(memory.persistent_bytes() + memory.register_bytes() +
                           memory.workspace_bytes());
    memory.set_lower_bound_bytes(memory.lower_bound_bytes() + memory.persistent_bytes());
  }
  return absl::OkStatus();
}

absl::Status CheckCapacity(const proto::Plan& plan, int64_t capacity) {
  if (capacity <= 0) return absl::OkStatus();
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.arena_bytes() <= capacity) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "memory of stage ", memory.stage(), ": needs ", BytesText(memory.arena_bytes()),
        ", a device has ", BytesText(capacity), ": ", BytesText(memory.arena_bytes() - capacity),
        " too many (weights and optimizer ", BytesText(memory.persistent_bytes()), ", registers ",
        BytesText(memory.register_bytes()), ", workspace ", BytesText(memory.workspace_bytes()),
        "); the largest: ", LargestRegisters(plan, memory.stage()),
        "; use more micro-batches, or split on more devices"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
