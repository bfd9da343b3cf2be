#include "planning/measure/calibrate_gpus.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/measure/gpu_time.h"
#include "planning/measure/timed_calls.h"

namespace oneflow {
namespace {

constexpr int64_t kCopies[] = {int64_t{1} << 12, int64_t{1} << 18, int64_t{1} << 22,
                               int64_t{1} << 26};
constexpr int64_t kGathered[] = {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 26};
// A call that takes longer than this part of its ladder's time is the last one.
constexpr double kLongest = 0.125;

class GpuCalibration {
 public:
  GpuCalibration(const DeviceBackend& backend, const GpuCalibrateOptions& options)
      : backend_(backend),
        options_(options),
        ladders_(CallsToTime(proto::CUDA)),
        // Two directions of copies, launches, and the link.
        total_(static_cast<int>(ladders_.size()) + 3 + (options.gpus > 1 ? 1 : 0)),
        budget_(options.seconds / total_) {}

  absl::StatusOr<proto::Cluster> Measure() {
    ASSIGN_OR_RETURN(const DeviceFacts facts, backend_.facts_of(0));
    cluster_.set_name(options_.gpus == 1 ? facts.name
                                         : absl::StrCat(options_.gpus, " x ", facts.name));
    device_.set_kind(proto::Device::CUDA);
    device_.set_memory_bytes(facts.total_bytes);
    device_.set_kernel_threads(1);
    for (const Ladder& ladder : ladders_) RETURN_IF_ERROR(MeasureKernel(ladder));
    for (const char* kind : {"copy_in", "copy_out"}) RETURN_IF_ERROR(MeasureCopies(kind));
    Next("a launch");
    ASSIGN_OR_RETURN(const double launch, TimeLaunch(backend_, budget_));
    device_.set_firing_seconds(launch);
    if (options_.gpus > 1) RETURN_IF_ERROR(MeasureLink());
    // The context and the libraries, and whatever else uses the GPU.
    ASSIGN_OR_RETURN(const DeviceFacts open, backend_.facts_of(0));
    device_.set_reserve_bytes(open.total_bytes - open.free_bytes);
    return std::move(cluster_);
  }

 private:
  void Next(const std::string& what) {
    if (options_.progress) options_.progress(done_, total_, what);
    ++done_;
  }

  proto::KernelTime* Add(const std::string& kernel, DType dtype, const std::string& inputs,
                         const GpuTime& time) {
    proto::KernelTime* entry = device_.add_kernel_time();
    entry->set_kernel(kernel);
    entry->set_dtype(ToProto(dtype));
    entry->set_inputs(inputs);
    entry->set_flops(time.flops);
    entry->set_bytes(time.bytes);
    entry->set_seconds(time.seconds);
    return entry;
  }

  absl::Status MeasureKernel(const Ladder& ladder) {
    const std::string kind = FormName(ladder[0]);
    const DType dtype = ladder[0].inputs[0].dtype;
    Next(absl::StrCat(kind, " ", ToAbsl(Name(dtype))));
    for (const TimedOp& op : ladder) {
      const absl::StatusOr<GpuTime> time =
          TimeOnGpu(backend_, op, budget_ / static_cast<double>(ladder.size()));
      // A larger one needs no less memory.
      if (absl::IsResourceExhausted(time.status())) break;
      if (absl::IsNotFound(time.status()) || absl::IsUnimplemented(time.status())) break;
      RETURN_IF_ERROR(Annotate(time.status(), absl::StrCat(kind, " ", FormatShapes(op))));
      Add(kind, dtype, FormatShapes(op), *time);
      SetRates(kind, dtype, *time);
      if (time->host_seconds > kLongest * budget_) break;
    }
    return absl::OkStatus();
  }

  // The peaks are the best that was reached.
  void SetRates(const std::string& kind, DType dtype, const GpuTime& time) {
    const double flops = time.flops / time.seconds, bytes = time.bytes / time.seconds;
    if (FindOpDef(kind)->product) {
      dtype == DType::kF32
          ? device_.set_peak_flops(std::max(flops, device_.peak_flops()))
          : device_.set_peak_flops_bf16(std::max(flops, device_.peak_flops_bf16()));
    } else if (kind == kCopyKernel) {
      device_.set_memory_bandwidth(std::max(bytes, device_.memory_bandwidth()));
    } else if (kind == "sum_squares") {
      device_.set_read_bandwidth(std::max(bytes, device_.read_bandwidth()));
    }
  }

  absl::Status MeasureCopies(const std::string& kind) {
    Next(kind == "copy_in" ? "copies from the host" : "copies to the host");
    for (const int64_t bytes : kCopies) {
      const absl::StatusOr<GpuTime> time =
          TimeHostCopy(backend_, kind, bytes, budget_ / static_cast<double>(std::size(kCopies)));
      RETURN_IF_ERROR(Annotate(time.status(), kind));
      Add(kind, DType::kU8, absl::StrCat("[", bytes, "]"), *time);
      SetHostLink(kind, static_cast<double>(bytes), time->seconds);
      if (time->host_seconds > kLongest * budget_) break;
    }
    return absl::OkStatus();
  }

  // The smallest copies are nothing but latency, and the larger ones say the bandwidth. One GPU
  // copies alone: how many share a link is not measured.
  void SetHostLink(const std::string& kind, double bytes, double seconds) {
    proto::HostLink& link = *cluster_.mutable_host_link();
    if (bytes == static_cast<double>(kCopies[0])) {
      link.set_latency(std::max(link.latency(), seconds));
    }
    const double moving = std::max(seconds - link.latency(), seconds / 2);
    if (kind == "copy_in") {
      link.set_from_host(std::max(link.from_host(), bytes / moving));
    } else {
      link.set_to_host(std::max(link.to_host(), bytes / moving));
    }
  }

  absl::Status MeasureLink() {
    Next("the link between GPUs");
    proto::Level& level = *cluster_.add_level();
    level.set_name("node");
    level.set_size(options_.gpus);
    for (const int64_t bytes : kGathered) {
      const absl::StatusOr<GpuTime> time = TimeAllGather(
          backend_, options_.gpus, bytes, budget_ / static_cast<double>(std::size(kGathered)));
      RETURN_IF_ERROR(Annotate(time.status(), "an all-gather between GPUs"));
      // The first is nothing but latency: a step to each of the others, one after the other.
      const double steps = std::max(1, options_.gpus - 1);
      if (bytes == kGathered[0]) level.set_latency(time->seconds / steps);
      const double moving = std::max(time->seconds - steps * level.latency(), time->seconds / 2);
      level.set_bandwidth(std::max(level.bandwidth(), time->bytes / moving));
      if (time->host_seconds > kLongest * budget_) break;
    }
    return absl::OkStatus();
  }

  const DeviceBackend& backend_;
  const GpuCalibrateOptions& options_;
  const std::vector<Ladder> ladders_;
  const int total_;
  const double budget_;  // seconds of a measurement
  int done_ = 0;
  proto::Cluster cluster_;
  proto::Device& device_ = *cluster_.mutable_device();
};

}  // namespace

absl::StatusOr<proto::Cluster> CalibrateGpus(const DeviceBackend& backend,
                                             const GpuCalibrateOptions& options) {
  return GpuCalibration(backend, options).Measure();
}

}  // namespace oneflow
