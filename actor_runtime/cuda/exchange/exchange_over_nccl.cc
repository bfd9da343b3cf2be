#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/exchange/nccl_communicator.h"
#include "actor_runtime/cuda/exchange/nccl_launch.h"
#include "actor_runtime/cuda/exchange/nccl_layout.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

void SetUnlessSet(const char* name, const char* value) { setenv(name, value, /*overwrite=*/0); }

// Versions that do not know one do not read it.
void SetVariablesOfProcess() {
  SetUnlessSet("NCCL_NVLS_ENABLE", "0");
  SetUnlessSet("NCCL_RUNTIME_CONNECT", "0");
  SetUnlessSet("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
}

class NcclCarrier final : public Carrier {
 public:
  NcclCarrier(Nccl nccl, IdExchange ids, DeviceKernelFactory make_kernel, NcclPatience patience)
      : nccl_(std::make_shared<const Nccl>(std::move(nccl))),
        ids_(std::move(ids)),
        make_kernel_(std::move(make_kernel)),
        comms_(std::make_shared<NcclComms>(nccl_, std::move(patience))) {}

  bool ReachesProcesses() const override { return true; }

  absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) override {
    const std::vector<char> all(exchange.members.size(), 1);  // they plan their steps alike
    ASSIGN_OR_RETURN(const NcclLayout layout, NcclLayout::Make(exchange.MakeSetups(all)));
    ExchangeWork work;
    for (int m = 0; m < std::ssize(exchange.members); ++m) {
      if (exchange.far.near[m] == 0) continue;
      const PlannedExchange::Member& member = exchange.members[m];
      const std::string& name = member.setup.name;
      const auto make = [&](const KernelSetup& s) { return make_kernel_(*member.device, s); };
      absl::StatusOr<MemberLaunch> launch =
          MakeNcclLaunch(layout, m, member.adds, member.setup.workspace_bytes, make, *nccl_);
      if (!launch.ok()) return Annotate(launch.status(), absl::StrCat("actor ", name));
      work.SetLaunch(m, *std::move(launch));
    }
    return work;
  }

  // Several runtimes of a process use the same group ids, so a counter distinguishes them.
  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                     const GroupUse& use) override {
    const std::string run = absl::StrCat(absl::Hex(group.id), ".", use.run);
    return MakeNcclCommunicator(comms_, ids_, absl::StrCat(run, ".", ++turns_[run]), use);
  }

 private:
  const std::shared_ptr<const Nccl> nccl_;
  const IdExchange ids_;
  const DeviceKernelFactory make_kernel_;
  const std::shared_ptr<NcclComms> comms_;
  std::map<std::string, int> turns_;
};

}  // namespace

void SetNcclVariables(const std::string& interface) {
  SetVariablesOfProcess();
  // "=": this name, not all that begin with it.
  SetUnlessSet("NCCL_SOCKET_IFNAME", ("=" + interface).c_str());
}

void ExchangeOverNccl(Nccl nccl, IdExchange ids, DeviceBackend* backend, NcclPatience patience) {
  SetVariablesOfProcess();
  backend->carrier = std::make_shared<NcclCarrier>(std::move(nccl), std::move(ids),
                                                   backend->make_kernel, std::move(patience));
}

}  // namespace oneflow::cuda
