#include "tools/measure/calibrate_gpus.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "tools/measure/gpu_time.h"

namespace oneflow {
namespace {

// Calls of one kernel, the smallest first.
using Ladder = std::vector<TimedOp>;

constexpr int64_t kCopies[] = {int64_t{1} << 12, int64_t{1} << 18, int64_t{1} << 22,
                               int64_t{1} << 26};
constexpr int64_t kGathered[] = {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 26};
// A call that takes longer than this part of its ladder's time is the last one.
constexpr double kLongest = 0.125;

struct Size {
  int64_t rows, in, out;
};

// Products of the blocks and of the logits of a GPT.
void AddProducts(DType t, std::vector<Ladder>* ladders) {
  const Size sizes[] = {{64, 64, 64},       {512, 256, 1024},    {1024, 768, 3072},
                        {8192, 768, 3072},  {8192, 1600, 6400},  {8192, 6400, 1600},
                        {8192, 768, 50304}, {16384, 4096, 16384}};
  std::vector<Ladder> kinds(t == DType::kF32 ? 6 : 5);
  for (const auto& [rows, in, out] : sizes) {
    const TimedInput x{{rows, in}, t}, w{{in, out}, t}, dy{{rows, out}, t};
    kinds[0].push_back({"linear", {x, w}, {}});
    kinds[1].push_back({"linear_gelu", {x, w}, {}});
    kinds[2].push_back({"linear_grad_input", {dy, w}, {}});
    kinds[3].push_back({"linear_gelu_grad_input", {dy, w, x}, {}});
    kinds[4].push_back({"linear_grad_weight", {x, dy}, {{"lead", int64_t{1}}}});
    if (t == DType::kF32) kinds[5].push_back({"linear_add", {x, w, dy}, {}});
  }
  ladders->insert(ladders->end(), kinds.begin(), kinds.end());
}

// Ops of a block other than products, on tokens of a width.
void AddBlock(DType t, std::vector<Ladder>* ladders) {
  const Size sizes[] = {{64, 64, 0}, {1024, 768, 0}, {8192, 768, 0}, {16384, 1600, 0}};
  const AttrMap lead = {{"lead", int64_t{1}}};
  std::vector<Ladder> kinds(7);
  for (const auto& [rows, width, ignored] : sizes) {
    const TimedInput x{{rows, width}, t}, gamma{{width}}, statistic{{rows}};
    kinds[0].push_back({"add", {x, x}, {}});
    kinds[1].push_back({"gelu", {x}, {}});
    kinds[2].push_back({"gelu_grad", {x, x}, {}});
    kinds[3].push_back({"layer_norm", {x, gamma, gamma}, {}});
    kinds[4].push_back({"layer_norm_grad_input", {x, x, gamma, statistic, statistic}, {}});
    kinds[5].push_back({"layer_norm_grad_weight", {x, x, statistic, statistic}, {}});
    kinds[6].push_back({"linear_grad_bias", {x}, lead});
  }
  ladders->insert(ladders->end(), kinds.begin(), kinds.end());
}

void AddAttention(DType t, std::vector<Ladder>* ladders) {
  const Dims sizes[] = {{1, 64, 1, 64}, {4, 256, 12, 64}, {8, 1024, 12, 64}, {8, 1024, 25, 64}};
  Ladder forward, backward;
  for (const Dims& out : sizes) {
    const TimedInput qkv{{out[0], out[1], 3, out[2], out[3]}, t}, y{out, t};
    const TimedInput lse{{out[0], out[2], out[1]}};
    forward.push_back({"causal_attention", {qkv}, {}});
    backward.push_back({"causal_attention_grad", {y, qkv, y, lse}, {}});
  }
  ladders->push_back(forward);
  ladders->push_back(backward);
}

void AddLoss(DType t, std::vector<Ladder>* ladders) {
  const Size sizes[] = {{64, 64, 0}, {1024, 8192, 0}, {8192, 50304, 0}};
  Ladder forward, backward;
  for (const auto& [rows, vocab, ignored] : sizes) {
    const TimedInput logits{{rows, vocab}, t}, labels{{rows}, DType::kI32}, statistic{{rows}};
    forward.push_back({"row_stats", {logits, labels}, {}});
    backward.push_back({"cross_entropy_grad",
                        {logits, labels, statistic, statistic, {{}}},
                        {{"scale", 1.0 / static_cast<double>(rows)}}});
  }
  ladders->push_back(forward);
  ladders->push_back(backward);
}

// Ops that are f32 in any precision: tables, gradients, the optimizer; and copies.
void AddUpdates(std::vector<Ladder>* ladders) {
  const Size sizes[] = {{64, 64, 0}, {768, 3072, 0}, {50304, 768, 0}, {50304, 1600, 0}};
  std::vector<Ladder> kinds(4);
  for (const auto& [rows, columns, ignored] : sizes) {
    const TimedInput w{{rows, columns}}, norm{{}, DType::kF64};
    kinds[0].push_back({"sum_squares", {w}, {}});
    kinds[1].push_back({"adamw", {w, w, w, w, norm}, {{"decay", true}}});
    kinds[2].push_back({"slice", {w}, {}});
    kinds[3].push_back({"cast", {w}, {{"dtype", std::string("bf16")}}});
  }
  ladders->insert(ladders->end(), kinds.begin(), kinds.end());
}

void AddTables(std::vector<Ladder>* ladders) {
  const Size sizes[] = {{64, 64, 64}, {1024, 8192, 768}, {8192, 50304, 768}};
  Ladder forward, backward;
  for (const auto& [tokens, vocab, hidden] : sizes) {
    const TimedInput ids{{tokens}, DType::kI32}, x{{tokens, hidden}}, table{{vocab, hidden}};
    forward.push_back({"embedding", {table, ids}, {}});
    backward.push_back({"embedding_grad", {ids, x}, {{"vocab", vocab}}});
  }
  ladders->push_back(forward);
  ladders->push_back(backward);
}

std::vector<Ladder> AllLadders() {
  std::vector<Ladder> ladders;
  for (const DType t : {DType::kF32, DType::kBF16}) {
    AddProducts(t, &ladders);
    AddBlock(t, &ladders);
    AddAttention(t, &ladders);
    AddLoss(t, &ladders);
  }
  AddUpdates(&ladders);
  AddTables(&ladders);
  return ladders;
}

class Calibration {
 public:
  Calibration(const DeviceBackend& backend, const GpuCalibrateOptions& options)
      : backend_(backend),
        options_(options),
        ladders_(AllLadders()),
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
    const std::string& kind = ladder[0].kind;
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
    if (kind == "linear" && dtype == DType::kF32) {
      device_.set_peak_flops(std::max(flops, device_.peak_flops()));
    } else if (kind == "linear") {
      device_.set_peak_flops_bf16(std::max(flops, device_.peak_flops_bf16()));
    } else if (kind == "slice") {
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
      if (time->host_seconds > kLongest * budget_) break;
    }
    return absl::OkStatus();
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
  return Calibration(backend, options).Measure();
}

}  // namespace oneflow
