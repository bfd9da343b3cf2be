// The backend of a build without CUDA.
#include "actor_runtime/cuda/backend.h"

namespace oneflow::cuda {

void PrepareToMeet(const std::string& /*interface*/) {}

absl::StatusOr<DeviceBackend> OpenBackend(const BackendOptions& /*options*/) {
  return absl::FailedPreconditionError(
      "GPUs are asked for, and this oneflow was built without CUDA: build it with --config=cuda, "
      "or use --device=cpu");
}

bool IsBuiltIn() { return false; }

}  // namespace oneflow::cuda
