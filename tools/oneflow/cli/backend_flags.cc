#include "tools/oneflow/cli/backend_flags.h"

#include <string>
#include <utility>

#include "actor_runtime/cuda/backend.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status RefuseGpuFlags(const proto::Run& run) {
  for (const auto& [flag, given] :
       {std::pair("logical_devices", run.logical_devices()),
        std::pair("synchronous", run.synchronous()), std::pair("cuda_libs", run.has_cuda_libs())}) {
    if (!given) continue;
    return InputError(std::string("--") + flag, "is of GPUs, and these devices are CPUs",
                      "compile with --device=cuda, or leave the flag out");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GpuBackend>> OpenGpus(const proto::Run& run, const proto::Plan& plan,
                                                   ProcessGroup& group) {
  if (plan.device_kind() != proto::CUDA) {
    RETURN_IF_ERROR(RefuseGpuFlags(run));
    return std::optional<GpuBackend>();
  }
  cuda::BackendOptions options{.paths = cuda::FindLibraryPaths(run.cuda_libs()),
                               .logical_devices = run.logical_devices()};
  for (const auto& axis : plan.mesh().axis()) options.ranks *= axis.size();
  RETURN_IF_ERROR(group.Divide(options.ranks));
  options.own = group.ranks();
  if (group.count() > 1) {
    options.ranks_of_host = options.own.size() * group.processes_on_host();
    options.ranks_before = options.own.size() * group.index_on_host();
    options.ids = [&group](const std::string& key,
                           const std::optional<std::string>& put) -> absl::StatusOr<std::string> {
      const std::string name = "id of NCCL's communicator " + key;
      if (!put.has_value()) return group.Fetch(name);
      group.Post(name, *put);
      return *put;
    };
  }
  ASSIGN_OR_RETURN(DeviceBackend backend, cuda::OpenBackend(options));
  ASSIGN_OR_RETURN(GpuMemory memory, GpuMemory::Check(plan, backend, options.own));
  return GpuBackend{std::move(backend), std::move(memory)};
}

}  // namespace oneflow
