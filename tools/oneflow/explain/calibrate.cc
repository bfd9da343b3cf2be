// oneflow calibrate: measures this machine and writes a cluster file.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/device/cores.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/table.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/measure/calibrate.h"
#include "planning/measure/calibrate_gpus.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/device_range.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

constexpr double kShortest = 0.1, kLongest = 3600;

std::string FileText(const proto::Cluster& cluster, const std::string& fields) {
  return absl::StrCat(
      "# Measured by `oneflow calibrate`, ", cluster.device().kernel_threads(),
      " kernel threads a device. The fields are described in proto/cluster.proto.\n", fields);
}

std::string GpuFileText(const proto::Cluster& cluster, const std::string& fields) {
  std::string text =
      "# Measured by `oneflow calibrate --device=cuda`. The fields are described in "
      "proto/cluster.proto.\n";
  if (cluster.level_size() == 0) {
    text +=
        "# The link between GPUs was not measured: there is one GPU. A plan for more is priced at\n"
        "# 1 us and 10 GB/s; a level, as in examples/clusters/, says otherwise.\n";
  }
  text +=
      "# host_link: of one GPU that copies alone. Add `sharing` where GPUs share a switch, and\n"
      "# `host_bandwidth`, which the host's processors reach in its memory: else it is 10 GB/s.\n";
  return text + fields;
}

std::string MakeJson(const proto::Cluster& cluster) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  return google::protobuf::util::MessageToJsonString(cluster, &json, options).ok() ? json + "\n"
                                                                                   : "{}\n";
}

// Kernels, and how fast the memory is.
std::string KernelLines(const proto::Device& device) {
  std::vector<std::vector<std::string>> rows;
  for (const proto::KernelTime& k : device.kernel_time()) {
    rows.push_back({k.kernel(), proto::DataType_Name(k.dtype()), k.inputs(),
                    absl::StrFormat("%.1f us", k.seconds() * 1e6),
                    absl::StrFormat("%.1f GFLOP/s", k.flops() / k.seconds() / 1e9),
                    absl::StrFormat("%.1f GB/s", k.bytes() / k.seconds() / 1e9)});
  }
  return TableText(rows, {{}, {}, {}, {.right = true}, {.right = true}, {.right = true}});
}

std::string HostLine(const proto::HostLink& link) {
  std::string text = absl::StrFormat("to the host's memory: %.1f GB/s, from it %.1f GB/s",
                                     link.to_host() / 1e9, link.from_host() / 1e9);
  if (link.latency() > 0) absl::StrAppendFormat(&text, "; a copy %.1f us", link.latency() * 1e6);
  return text + "\n";
}

std::string GpuSummary(const proto::Cluster& cluster) {
  const proto::Device& device = cluster.device();
  std::string text = absl::StrCat(cluster.name(), "\n", KernelLines(device));
  absl::StrAppendFormat(&text, "products: %.1f TFLOP/s in f32, %.1f in bf16\n",
                        device.peak_flops() / 1e12, device.peak_flops_bf16() / 1e12);
  absl::StrAppendFormat(&text, "memory: copies %.1f GB/s, reads %.1f GB/s; a launch: %.2f us\n",
                        device.memory_bandwidth() / 1e9, device.read_bandwidth() / 1e9,
                        device.firing_seconds() * 1e6);
  text += HostLine(cluster.host_link());
  if (cluster.level_size() == 0) return text + "between GPUs: not measured, there is one\n";
  const proto::Level& level = cluster.level(0);
  absl::StrAppendFormat(&text, "between %d GPUs: %.1f us, %.1f GB/s\n", level.size(),
                        level.latency() * 1e6, level.bandwidth() / 1e9);
  return text;
}

std::string Summary(const proto::Cluster& cluster) {
  const proto::Device& device = cluster.device();
  const proto::Level& level = cluster.level(0);
  std::string text = absl::StrFormat("%s: %d device(s) of %d kernel threads\n", cluster.name(),
                                     level.size(), device.kernel_threads());
  text += KernelLines(device);
  absl::StrAppendFormat(&text, "memory: copies %.1f GB/s, reads %.1f GB/s\n",
                        device.memory_bandwidth() / 1e9, device.read_bandwidth() / 1e9);
  text += HostLine(cluster.host_link());
  absl::StrAppendFormat(&text, "a firing: %.1f ns\n", device.firing_seconds() * 1e9);
  for (int l = 1; l < cluster.level_size(); ++l) {
    const proto::Level& far = cluster.level(l);
    absl::StrAppendFormat(
        &text, "between %s: a message %.1f us, %.1f us to a sleeping process; %.2f GB/s\n",
        l == 1 ? "processes of a host" : "hosts, over TCP", far.latency() * 1e6,
        far.sleeping_latency() * 1e6, far.bandwidth() / 1e9);
  }
  absl::StrAppendFormat(
      &text, "between devices: a message %.0f ns, %.0f ns to a sleeping worker; %.1f GB/s\n",
      level.latency() * 1e9, level.sleeping_latency() * 1e9, level.bandwidth() / 1e9);
  return text;
}

// Checks that the file can be created before the measuring, not after it.
absl::Status TryPath(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be written
  if (std::filesystem::exists(path, ignored)) {
    const bool folder = std::filesystem::is_directory(path, ignored);
    if (!folder && access(path.c_str(), W_OK) == 0) return absl::OkStatus();
    return WriteError("--out=" + path, "cannot be written", folder ? EISDIR : errno,
                      "give another file");
  }
  RETURN_IF_ERROR(Annotate(WriteFile(path, ""), "--out"));
  std::filesystem::remove(path, ignored);
  return absl::OkStatus();
}

// --devices, or `most` where it is not given. An error where it is more: `hint` says what there is.
absl::StatusOr<int> DeviceCountFromFlags(int most, const std::string& hint) {
  if (FLAGS_devices.empty()) return most;
  ASSIGN_OR_RETURN(const int64_t devices, ParseDevices(FLAGS_devices));
  if (devices <= most) return static_cast<int>(devices);
  return InputError(absl::StrCat("--devices=", FLAGS_devices), "do not fit this machine", hint);
}

void Progress(int number, int of, const std::string& what) {
  std::fprintf(stderr, "%d/%d %s\n", number + 1, of, what.c_str());
}

absl::StatusOr<proto::Cluster> CalibrateCpus(const proto::Run& run) {
  CalibrateOptions options;
  options.threads = CountThreads(run);
  const int most = std::max(1, Cores() / options.threads);
  ASSIGN_OR_RETURN(
      options.devices,
      DeviceCountFromFlags(most, absl::StrCat("of ", options.threads,
                                              " threads each there is room for 1 to ", most)));
  if (run.has_processes()) {
    if (options.devices % run.processes() != 0) {
      return InputError(absl::StrCat("--processes=", run.processes()),
                        absl::StrCat("the ", options.devices,
                                     " devices cannot be divided evenly among so many processes"),
                        "use a number that divides them, or give --devices and --threads");
    }
    options.processes = run.processes();
  }
  if (run.has_interface()) {
    ASSIGN_OR_RETURN(const std::vector<NetworkDevice> devices, NetworkDevices());
    ASSIGN_OR_RETURN(options.interface, ChooseDevice({.interface = run.interface()}, devices));
  }
  options.seconds = FLAGS_seconds;
  options.progress = Progress;
  return Calibrate(options);
}

// Calibrates as many GPUs as the driver shows.
absl::StatusOr<int> GpusFromFlags(const DeviceBackend& backend) {
  int gpus = 0;
  while (backend.facts_of(gpus).ok()) ++gpus;
  return DeviceCountFromFlags(gpus, absl::StrCat("it has 1 to ", gpus, " GPUs"));
}

absl::StatusOr<proto::Cluster> CalibrateCuda(const proto::Run& run) {
  cuda::BackendOptions open{.paths = cuda::FindLibraryPaths(run.cuda_libs())};
  GpuCalibrateOptions options;
  // The first one knows how many there are.
  ASSIGN_OR_RETURN(DeviceBackend backend, cuda::OpenBackend(open));
  ASSIGN_OR_RETURN(options.gpus, GpusFromFlags(backend));
  if (options.gpus > 1) {
    open.ranks = options.gpus;
    ASSIGN_OR_RETURN(backend, cuda::OpenBackend(open));
  }
  options.seconds = FLAGS_seconds;
  options.progress = Progress;
  return CalibrateGpus(backend, options);
}

absl::Status CalibrateMachine(const Arguments& args) {
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=cluster.textproto");
  if (!(FLAGS_seconds >= kShortest && FLAGS_seconds <= kLongest)) {
    return InputError(absl::StrCat("--seconds=", FLAGS_seconds), "is out of range",
                      absl::StrCat("give ", kShortest, " to ", kLongest));
  }
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  const proto::DeviceKind kind = recipe.device();
  const bool gpus = kind == proto::CUDA;
  if (gpus && run.has_threads()) {
    return InputError("--threads", "is of CPUs, and --device=cuda measures GPUs", "leave it out");
  }
  if (!gpus) RETURN_IF_ERROR(RefuseGpuFlags(run));
  RETURN_IF_ERROR(TryPath(FLAGS_out));
  ASSIGN_OR_RETURN(const proto::Cluster cluster, gpus ? CalibrateCuda(run) : CalibrateCpus(run));
  std::string fields;
  google::protobuf::TextFormat::PrintToString(cluster, &fields);
  RETURN_IF_ERROR(
      WriteFile(FLAGS_out, gpus ? GpuFileText(cluster, fields) : FileText(cluster, fields)));
  if (FLAGS_format == "json") return Print(MakeJson(cluster));
  return Print(gpus ? GpuSummary(cluster) : Summary(cluster));
}

}  // namespace

Verb CalibrateVerb() {
  return {verbs::kCalibrate, "measure this machine and write a cluster file",
          "oneflow calibrate --out=cluster.textproto\n"
          "oneflow calibrate --out=cluster.textproto --threads=1 --seconds=5 --format=json\n"
          "oneflow calibrate --out=cluster.textproto --threads=1 --processes=2\n"
          "oneflow compile --graph=gpt.textproto --cluster=cluster.textproto --out=gpt.plan\n"
          "oneflow calibrate --device=cuda --out=gpu.textproto\n",
          CalibrateMachine};
}

}  // namespace oneflow
