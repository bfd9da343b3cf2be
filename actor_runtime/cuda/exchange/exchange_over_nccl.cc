#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/exchange/nccl_communicator.h"
#include "actor_runtime/cuda/exchange/nccl_launch.h"
#include "actor_runtime/cuda/exchange/nccl_layout.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kHasLaunchOrder = 22600;

void SetUnlessSet(const char* name, const char* value) { setenv(name, value, /*overwrite=*/0); }

// What the plans that are loaded with one backend share. One thread at a time.
class Library {
 public:
  Library(std::function<absl::StatusOr<Nccl>()> open, IdExchange ids)
      : open_(std::move(open)), ids_(std::move(ids)) {}

  absl::StatusOr<const Nccl*> Get() {
    if (!nccl_.has_value()) {
      ASSIGN_OR_RETURN(Nccl nccl, open_());
      int version = 0;
      RETURN_IF_ERROR(nccl.ToStatus(nccl.GetVersion(&version), "ncclGetVersion"));
      SetUnlessSet("NCCL_NVLS_ENABLE", "0");
      SetUnlessSet("NCCL_RUNTIME_CONNECT", "0");
      if (version >= kHasLaunchOrder) SetUnlessSet("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
      nccl_ = std::move(nccl);
    }
    return &*nccl_;
  }

  // Several runtimes of a process name their groups alike; so names are told apart by their turn.
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(DeviceGroup group) {
    ASSIGN_OR_RETURN(const Nccl* nccl, Get());
    absl::StrAppend(&group.name, ".", ++turns_[group.name]);
    return MakeNcclCommunicator(*nccl, ids_, group);
  }

 private:
  const std::function<absl::StatusOr<Nccl>()> open_;
  const IdExchange ids_;
  std::optional<Nccl> nccl_;
  std::map<std::string, int> turns_;  // by name of a group
};

}  // namespace

void ExchangeOverNccl(std::function<absl::StatusOr<Nccl>()> open, IdExchange ids,
                      DeviceBackend* backend) {
  const auto library = std::make_shared<Library>(std::move(open), std::move(ids));
  backend->make_launch = [library, make_kernel = backend->make_kernel](
                             Device& device,
                             const MemberExchange& exchange) -> absl::StatusOr<MemberLaunch> {
    ASSIGN_OR_RETURN(const Nccl* nccl, library->Get());
    ASSIGN_OR_RETURN(const NcclLayout layout, NcclLayout::Make(exchange.setups));
    const KernelFactory make = [&](const KernelSetup& s) { return make_kernel(device, s); };
    return MakeNcclLaunch(layout, exchange.member, exchange.accumulates, exchange.workspace_bytes,
                          make, *nccl);
  };
  backend->make_communicator = [library](const DeviceGroup& group) {
    return library->MakeCommunicator(group);
  };
}

}  // namespace oneflow::cuda
