#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

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

}  // namespace

void SetNcclVariables(const std::string& interface) {
  SetVariablesOfProcess();
  // "=": this name, not all that begin with it.
  SetUnlessSet("NCCL_SOCKET_IFNAME", ("=" + interface).c_str());
}

absl::Status ExchangeOverNccl(Nccl nccl, IdExchange ids, DeviceBackend* backend,
                              NcclPatience patience) {
  SetVariablesOfProcess();
  const auto library = std::make_shared<const Nccl>(std::move(nccl));
  const auto comms = std::make_shared<NcclComms>(library, std::move(patience));
  backend->make_launch = [library, make_kernel = backend->make_kernel](
                             Device& device,
                             const MemberExchange& exchange) -> absl::StatusOr<MemberLaunch> {
    ASSIGN_OR_RETURN(const NcclLayout layout, NcclLayout::Make(exchange.setups));
    const KernelFactory make = [&](const KernelSetup& s) { return make_kernel(device, s); };
    return MakeNcclLaunch(layout, exchange.member, exchange.accumulates, exchange.workspace_bytes,
                          make, *library);
  };
  // Several runtimes of a process use the same group names, so a counter distinguishes them.
  const auto turns = std::make_shared<std::map<std::string, int>>();
  backend->make_communicator = [comms, ids = std::move(ids), turns](DeviceGroup group) {
    absl::StrAppend(&group.name, ".", ++(*turns)[group.name]);
    return MakeNcclCommunicator(comms, ids, group);
  };
  return absl::OkStatus();
}

}  // namespace oneflow::cuda
