// Ranges of NVTX around launches, named after actors, so that a profiler shows whose they are.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>
#include <utility>

#ifndef ONEFLOW_EMULATED_GPU
#include <nvtx3/nvToolsExt.h>
#endif

namespace oneflow::cuda {

// `launch`, a std::function, in a range of that name. `launch` itself where
// no profiler has put itself into the process: a step then pays nothing.
template <typename Launch>
Launch InRange(Launch launch, [[maybe_unused]] const std::string& name) {
#ifndef ONEFLOW_EMULATED_GPU
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) {
    return [launch = std::move(launch), name](auto&&... arguments) {
      nvtxRangePushA(name.c_str());
      auto result = launch(std::forward<decltype(arguments)>(arguments)...);
      nvtxRangePop();
      return result;
    };
  }
#endif
  return launch;
}

}  // namespace oneflow::cuda
