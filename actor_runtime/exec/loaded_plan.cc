#include "actor_runtime/exec/loaded_plan.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/instantiate.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/verify_plan.h"
#include "oneflow_core/plan/verify_types.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<LoadedPlan>> LoadedPlan::Load(proto::Plan plan,
                                                             const LoadOptions& options) {
  RETURN_IF_ERROR(options.prove ? VerifyPlan(plan, {.kernels = options.own_kernels})
                                : VerifyPlanTypes(plan));
  std::unique_ptr<LoadedPlan> loaded(new LoadedPlan);
  loaded->plan_ = std::move(plan);
  const proto::Plan& p = loaded->plan_;
  ASSIGN_OR_RETURN(loaded->mesh_, StageMeshOf(p));
  for (int i = 0; i < p.program_size(); ++i) {
    ASSIGN_OR_RETURN(ActorNet net, Instantiate(p, i, loaded->mesh_));
    loaded->programs_.push_back({std::move(net)});
  }
  if (!options.make_kernel) {
    for (LoadedProgram& program : loaded->programs_) {
      RETURN_IF_ERROR(BindExchanges(nullptr, &program));
    }
    return loaded;
  }

  const int ranks = loaded->mesh_.ranks();
  // The planner sized the workspaces for this many threads.
  loaded->kernel_threads_ = std::clamp(options.threads / ranks, 1, std::max(1, p.kernel_threads()));
  for (int rank = 0; rank < ranks; ++rank) {
    ASSIGN_OR_RETURN(DeviceMemory device, DeviceMemory::Create(p, loaded->mesh_.StageOf(rank)));
    loaded->devices_.push_back(std::move(device));
    loaded->pools_.push_back(std::make_unique<ThreadPool>(loaded->kernel_threads_));
  }
  loaded->pools_.push_back(std::make_unique<ThreadPool>(1));
  for (int i = 0; i < p.program_size(); ++i)
    RETURN_IF_ERROR(loaded->BindProgram(i, options.make_kernel));
  return loaded;
}

absl::Status LoadedPlan::BindProgram(int program, const KernelFactory& make_kernel) {
  ASSIGN_OR_RETURN(const PlanNet plan_net, MakePlanNet(plan_, plan_.program(program)));
  const BindContext context{plan_net, mesh_, devices_, make_kernel};
  LoadedProgram& loaded = programs_[program];
  const ActorNet& net = loaded.net;
  for (const StreamOrder& stream : net.streams) {
    const int rank = static_cast<int>(stream.rank);
    ThreadPool* pool = stream.host ? pools_.back().get() : pools_[rank].get();
    std::vector<BoundActor>& actors = loaded.actors.emplace_back();
    for (const int32_t a : stream.actors) {
      absl::StatusOr<BoundActor> actor =
          Bind(context, static_cast<int>(net.specs[a].actor), rank, pool);
      if (!actor.ok())
        return Annotate(actor.status(), absl::StrCat("program ", net.program, ", rank ", rank));
      actors.push_back(*std::move(actor));
    }
  }
  return Annotate(BindExchanges(&context, &loaded), absl::StrCat("program ", net.program));
}

// Without a context: no memory, so no work.
absl::Status LoadedPlan::BindExchanges(const BindContext* context, LoadedProgram* loaded) {
  for (const NetExchange& exchange : loaded->net.exchanges) {
    ExchangeWork work;
    if (context != nullptr) {
      std::vector<BoundMember> members;
      for (const int32_t a : exchange.members) {
        const ActorSpec& spec = loaded->net.specs[a];
        members.push_back({static_cast<int>(spec.actor), static_cast<int>(spec.rank)});
      }
      ASSIGN_OR_RETURN(work, BindExchange(*context, members));
    }
    const int members = static_cast<int>(exchange.members.size());
    loaded->exchanges.push_back(std::make_unique<LocalExchange>(members, std::move(work)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> LoadedPlan::FindProgram(std::string_view name) const {
  std::string known;
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (programs_[i].net.program == name) return static_cast<int>(i);
    absl::StrAppend(&known, known.empty() ? "" : ", ", programs_[i].net.program);
  }
  return absl::NotFoundError(absl::StrCat("the plan has no program \"", ToAbsl(name), "\"; it has ",
                                          known.empty() ? "none" : known));
}

std::span<std::byte> LoadedPlan::PersistentBytes(int rank, int register_id, int slot) const {
  CHECK(register_id >= 0 && register_id < plan_.persistent_size()) << "register " << register_id;
  const proto::Register& reg = plan_.persistent(register_id);
  CHECK(rank >= 0 && rank < static_cast<int>(devices_.size()) && mesh_.StageOf(rank) == reg.stage())
      << "register " << reg.name() << " is not on rank " << rank;
  CHECK(slot >= 0 && slot < reg.slots()) << "slot " << slot << " of " << reg.name();
  const absl::StatusOr<std::byte*> base = devices_[rank].Find(reg);
  CHECK(base.ok()) << base.status();
  return {*base + slot * reg.slot_bytes(), static_cast<size_t>(reg.slot_bytes())};
}

}  // namespace oneflow
