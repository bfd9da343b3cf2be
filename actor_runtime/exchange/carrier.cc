#include "actor_runtime/exchange/carrier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exchange/local_communicator.h"
#include "actor_runtime/exchange/stream_communicator.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int MostTensors(const GroupUse& use) {
  int tensors = 0;
  for (const ExchangeWork* work : use.works) tensors = std::max(tensors, work->tensors());
  return tensors;
}

// The plan's verifier checks workspaces against the needs of exchanges; plans may run without it.
absl::Status CheckWindows(const PlannedExchange& exchange, const ExchangeWork& work) {
  for (size_t m = 0; m < exchange.members.size(); ++m) {
    const PlannedExchange::Member& member = exchange.members[m];
    if (exchange.far.near[m] == 0 || member.setup.out.empty()) continue;
    const int64_t needs = std::max(work.WindowBytes(static_cast<int>(m), false),
                                   member.adds ? work.WindowBytes(static_cast<int>(m), true) : 0);
    if (needs <= member.setup.workspace_bytes) continue;
    return InputError(
        absl::StrCat("plan, actor ", member.setup.name),
        absl::StrCat("has ", member.setup.workspace_bytes, " bytes of workspace, needs ", needs,
                     " for members in other processes"),
        "compile it again");
  }
  return absl::OkStatus();
}

class HostCarrier final : public Carrier {
 public:
  explicit HostCarrier(CommunicatorMaker make_far) : make_far_(std::move(make_far)) {}

  bool ReachesProcesses() const override { return make_far_ != nullptr; }

  absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) override {
    const auto setups = exchange.MakeSetups(exchange.far.near);
    if (exchange.AreAllNear()) return ExchangeWork::Make(setups);
    FarMembers far = exchange.far;
    ASSIGN_OR_RETURN(far.most, exchange.count_most());
    ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(setups, &far));
    RETURN_IF_ERROR(CheckWindows(exchange, work));
    return work;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                     const GroupUse& use) override {
    if (group.AreAllNear()) return MakeLocalCommunicator(group.members(), MostTensors(use));
    PacketShape packets;
    for (const ExchangeWork* work : use.works) packets = packets.Join(work->FindPacketShape());
    return make_far_(group, {MostTensors(use), uint64_t{use.run} << 32, packets});
  }

 private:
  const CommunicatorMaker make_far_;
};

class SharedGpuCarrier final : public Carrier {
 public:
  explicit SharedGpuCarrier(DeviceKernelFactory make_kernel)
      : make_kernel_(std::move(make_kernel)) {}

  bool ReachesProcesses() const override { return false; }

  absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) override {
    const auto setups = exchange.MakeSetups(exchange.far.near);
    ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(setups));
    RETURN_IF_ERROR(work.AddKernels(setups, [&](const KernelSetup& setup) {
      return make_kernel_(*exchange.members[0].device, setup);
    }));
    return work;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                     const GroupUse& use) override {
    return MakeStreamCommunicator(group.members(), MostTensors(use));
  }

 private:
  const DeviceKernelFactory make_kernel_;
};

}  // namespace

bool PlannedExchange::AreAllNear() const {
  return std::count(far.near.begin(), far.near.end(), 0) == 0;
}

std::vector<std::vector<KernelSetup>> PlannedExchange::MakeSetups(
    const std::vector<char>& full) const {
  size_t tensors = 1;
  for (const Member& m : members) {
    tensors = std::max({tensors, m.setup.in.size(), m.setup.out.size()});
  }
  std::vector<std::vector<KernelSetup>> setups(tensors);
  for (size_t t = 0; t < tensors; ++t) {
    std::vector<Port> sources;
    for (const Member& m : members) {
      if (t < m.setup.in.size()) sources.push_back(m.setup.in[t][0]);
    }
    for (size_t m = 0; m < members.size(); ++m) {
      const KernelSetup& own = members[m].setup;
      KernelSetup& setup = setups[t].emplace_back();
      if (full[m] != 0) {
        setup = own;
        setup.in = {sources};
        setup.out.clear();
      }
      if (t < own.out.size()) setup.out = {own.out[t]};
    }
  }
  return setups;
}

std::unique_ptr<Carrier> MakeHostCarrier(CommunicatorMaker make_far) {
  return std::make_unique<HostCarrier>(std::move(make_far));
}

std::unique_ptr<Carrier> MakeSharedGpuCarrier(DeviceKernelFactory make_kernel) {
  return std::make_unique<SharedGpuCarrier>(std::move(make_kernel));
}

}  // namespace oneflow
