// The report of a build without CUDA.
#include "actor_runtime/cuda/library/report.h"

namespace oneflow::cuda {

CudaReport ReportCuda(const std::string& /*folder*/) {
  return {.no_gpu = "no GPU can be used: built without CUDA; build with --config=cuda"};
}

}  // namespace oneflow::cuda
