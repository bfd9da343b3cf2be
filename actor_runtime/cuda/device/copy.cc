#include "actor_runtime/cuda/device/copy.h"

#include <cuda_runtime.h>

#include "actor_runtime/cuda/status.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow::cuda {

bool IsCopy(const KernelSetup& setup) {
  return setup.kind == "copy_in" || setup.kind == "copy_out";
}

absl::StatusOr<Kernel> MakeCopy(const KernelSetup& setup) {
  const Port& out = setup.out[0];
  const size_t bytes = Product(out.local()) * ElementBytes(out.dtype);
  const cudaMemcpyKind direction =
      setup.kind == "copy_in" ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  return Kernel([bytes, direction](const KernelCall& call) {
    if (bytes == 0) return absl::OkStatus();
    return ToStatus(cudaMemcpyAsync(call.out[0], call.in[0][0], bytes, direction,
                                    static_cast<cudaStream_t>(call.stream)),
                    "cudaMemcpyAsync");
  });
}

}  // namespace oneflow::cuda
