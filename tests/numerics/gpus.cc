#include <cstdlib>

#include "actor_runtime/cuda/backend.h"
#include "glog/logging.h"
#include "tests/numerics/devices.h"

namespace oneflow {

const DeviceBackend* DevicesOfTest() {
  static const DeviceBackend* const backend = [] {
    const char* folder = std::getenv("ONEFLOW_CUDA_LIBS");
    auto opened =
        cuda::OpenBackend({.paths = cuda::FindLibraryPaths(folder == nullptr ? "" : folder),
                           .logical_devices = true});
    CHECK(opened.ok()) << opened.status().ToString();
    return new DeviceBackend(*std::move(opened));  // as long as the process
  }();
  return backend;
}

}  // namespace oneflow
