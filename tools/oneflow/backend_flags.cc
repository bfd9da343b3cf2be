#include "tools/oneflow/backend_flags.h"

#include <string>

#include "actor_runtime/cuda/backend.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/flags.h"

namespace oneflow {

absl::Status RefuseGpuFlags(const Arguments& args) {
  for (const char* flag : {"logical_devices", "synchronous", "cuda_libs"}) {
    if (!args.Given(flag)) continue;
    return InputError(std::string("--") + flag, "is of GPUs, and these devices are CPUs",
                      "compile with --device=cuda, or leave the flag out");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GpuBackend>> BackendFromFlags(const Arguments& args,
                                                           const proto::Plan& plan) {
  if (plan.device_kind() != proto::CUDA) {
    RETURN_IF_ERROR(RefuseGpuFlags(args));
    return std::optional<GpuBackend>();
  }
  int ranks = 1;
  for (const auto& axis : plan.mesh().axis()) ranks *= axis.size();
  ASSIGN_OR_RETURN(DeviceBackend backend,
                   cuda::OpenBackend({.places = cuda::PlacesOfMachine(FLAGS_cuda_libs),
                                      .ranks = ranks,
                                      .logical_devices = FLAGS_logical_devices}));
  ASSIGN_OR_RETURN(GpuMemory memory, GpuMemory::Check(plan, backend));
  return GpuBackend{std::move(backend), std::move(memory)};
}

}  // namespace oneflow
