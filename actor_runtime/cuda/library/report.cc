#include "actor_runtime/cuda/library/report.h"

#include <cuda_runtime.h>

#include <fstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/library/cublas_lt.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/cuda/library/open_library.h"

namespace oneflow::cuda {
namespace {

// 13010 is CUDA 13.1.
std::string CudaVersion(int number) {
  return number == 0 ? "" : absl::StrCat(number / 1000, ".", number % 1000 / 10);
}

// Version of the kernel module: the runtime only reports the CUDA version that it supports.
std::string DriverVersion() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  std::getline(file, version);
  return version;
}

template <typename Library>
LibraryReport ReportLibrary(const char* title, const absl::StatusOr<Library>& library) {
  LibraryReport report{.title = title};
  if (library.ok()) {
    report.version = library->version;
    report.path = library->path;
  } else {
    report.missing = std::string(library.status().message());
  }
  return report;
}

}  // namespace

CudaReport ReportCuda(const std::string& folder) {
  CudaReport report{.driver = DriverVersion(), .runtime = CudaVersion(CUDART_VERSION)};
  const LibraryPaths paths = FindLibraryPaths(folder);
  report.libraries = {ReportLibrary("cuBLASLt", OpenCublasLt(paths)),
                      ReportLibrary("NCCL", OpenNccl(paths))};
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) report.driver_cuda = CudaVersion(driver);
  if (driver == 0) {
    report.no_gpu = "no GPU can be used: this machine has no NVIDIA driver; install it";
    return report;
  }
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    report.no_gpu =
        absl::StrCat("no GPU can be used: ",
                     error == cudaSuccess ? "the driver shows none" : cudaGetErrorString(error));
    return report;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p;
    if (const cudaError_t error = cudaGetDeviceProperties(&p, i); error != cudaSuccess) {
      report.no_gpu = absl::StrCat("GPU ", i, " cannot be used: ", cudaGetErrorString(error));
      return report;
    }
    report.gpus.push_back(
        {p.name, p.major, p.minor, p.multiProcessorCount, static_cast<int64_t>(p.totalGlobalMem)});
  }
  return report;
}

}  // namespace oneflow::cuda
