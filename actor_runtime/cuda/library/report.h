// CudaReport: the parts of this machine that runs on GPUs need: GPUs, the driver, libraries.
//
//   const CudaReport report = ReportCuda(FLAGS_cuda_libs);
//   if (!report.no_gpu.empty()) return absl::UnavailableError(report.no_gpu);
//
// A build without CUDA defines it, too, and finds nothing. It opens libraries but allocates nothing
// on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oneflow::cuda {

struct GpuReport {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
};

struct LibraryReport {
  std::string title;
  std::string version, path;  // empty where it is missing
  std::string missing;        // the reason, and a hint
};

struct CudaReport {
  std::string no_gpu;           // why there is none, a sentence; "" if there is one
  std::vector<GpuReport> gpus;  // in the order of their numbers
  std::string driver;           // its version, such as "580.65.06"; "" if unknown
  std::string driver_cuda;      // the newest CUDA that it can run, "13.0"; "" without a driver
  std::string runtime;          // the CUDA that the program was built with
  std::vector<LibraryReport> libraries;
};

// `folder`: the first folder of the search for libraries (open_library.h).
CudaReport ReportCuda(const std::string& folder);

}  // namespace oneflow::cuda
