// oneflow devices: the GPUs of this machine, the driver, and the libraries that are found.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/library/report.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/load.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

std::string ReportText(const cuda::CudaReport& report) {
  std::string text;
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    const cuda::GpuReport& gpu = report.gpus[i];
    char memory[32];
    std::snprintf(memory, sizeof(memory), "%.1f",
                  static_cast<double>(gpu.memory_bytes) / (1 << 30));
    absl::StrAppend(&text, "GPU ", i, "     ", gpu.name, ", compute capability ", gpu.major, ".",
                    gpu.minor, ", ", gpu.multiprocessors, " multiprocessors, ", memory, " GiB\n");
  }
  if (!report.driver_cuda.empty()) {
    absl::StrAppend(&text, "driver    ", report.driver, report.driver.empty() ? "" : ", ",
                    "for CUDA up to ", report.driver_cuda, "\n");
  }
  if (!report.runtime.empty()) {
    absl::StrAppend(&text, "runtime   CUDA ", report.runtime, "\n");
  }
  for (const cuda::LibraryReport& library : report.libraries) {
    std::string title = library.title;
    title.resize(10, ' ');
    absl::StrAppend(&text, title,
                    library.missing.empty() ? absl::StrCat(library.version, "  ", library.path)
                                            : "missing: " + library.missing,
                    "\n");
  }
  return text;
}

nlohmann::ordered_json ReportJson(const cuda::CudaReport& report) {
  nlohmann::ordered_json json = {
      {"gpus", nlohmann::json::array()}, {"no_gpu", report.no_gpu},
      {"driver", report.driver},         {"driver_cuda", report.driver_cuda},
      {"runtime", report.runtime},       {"libraries", nlohmann::json::array()}};
  for (const cuda::GpuReport& gpu : report.gpus) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"compute_capability", absl::StrCat(gpu.major, ".", gpu.minor)},
                            {"multiprocessors", gpu.multiprocessors},
                            {"memory_bytes", gpu.memory_bytes}});
  }
  for (const cuda::LibraryReport& library : report.libraries) {
    json["libraries"].push_back({{"name", library.title},
                                 {"version", library.version},
                                 {"path", library.path},
                                 {"missing", library.missing}});
  }
  return json;
}

absl::Status Devices(const Arguments& /*args*/) {
  const std::string& format = FLAGS_format;
  const cuda::CudaReport report = cuda::ReportCuda(FLAGS_cuda_libs);
  const std::string text =
      format == "json" ? JsonText(ReportJson(report)) + "\n" : ReportText(report);
  std::fputs(text.c_str(), stdout);
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
