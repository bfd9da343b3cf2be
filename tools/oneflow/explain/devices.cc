// oneflow devices: the GPUs of this machine, the driver, and the libraries that are found.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/cuda/library/report.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/table.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

absl::Status Devices(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  using Json = nlohmann::ordered_json;
  const cuda::CudaReport report = cuda::ReportCuda(run.cuda_libs());
  std::vector<std::vector<std::string>> rows;
  Json gpus = Json::array(), libraries = Json::array();
  for (const cuda::GpuReport& gpu : report.gpus) {
    const std::string capability = absl::StrCat(gpu.major, ".", gpu.minor);
    rows.push_back({absl::StrCat("GPU ", rows.size()),
                    absl::StrFormat("%s, compute capability %s, %d multiprocessors, %.1f GiB",
                                    gpu.name, capability, gpu.multiprocessors,
                                    static_cast<double>(gpu.memory_bytes) / (1 << 30))});
    gpus.push_back({{"name", gpu.name},
                    {"compute_capability", capability},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  if (!report.driver_cuda.empty()) {
    rows.push_back({"driver", absl::StrCat(report.driver, report.driver.empty() ? "" : ", ",
                                           "for CUDA up to ", report.driver_cuda)});
  }
  if (!report.runtime.empty()) rows.push_back({"runtime", "CUDA " + report.runtime});
  for (const cuda::LibraryReport& library : report.libraries) {
    rows.push_back({library.title, library.missing.empty()
                                       ? absl::StrCat(library.version, "  ", library.path)
                                       : "missing: " + library.missing});
    libraries.push_back({{"name", library.title},
                         {"version", library.version},
                         {"path", library.path},
                         {"missing", library.missing}});
  }
  RETURN_IF_ERROR(
      Print(TableText(rows, {{.least = 8}, {}}), {{"gpus", std::move(gpus)},
                                                  {"no_gpu", report.no_gpu},
                                                  {"driver", report.driver},
                                                  {"driver_cuda", report.driver_cuda},
                                                  {"runtime", report.runtime},
                                                  {"libraries", std::move(libraries)}}));
  return report.no_gpu.empty() ? absl::OkStatus() : absl::UnavailableError(report.no_gpu);
}

}  // namespace

Verb DevicesVerb() {
  return {verbs::kDevices, "list the GPUs of this machine, their driver and libraries",
          "oneflow devices\n"
          "oneflow devices --cuda_libs=/usr/local/cuda/lib64 --format=json\n",
          Devices};
}

}  // namespace oneflow
