#include "oneflow_core/cost/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

constexpr double kFlops = 1e11, kBandwidth = 1e10;  // of a device that says nothing

bool IsProduct(std::string_view kernel) {
  const OpDef* def = FindOpDef(kernel);
  return def != nullptr && def->HasProducts();
}

// The time of a call's tiles, relative to its results spread evenly over the processors; at
// least 1. The tile may have either orientation. Its sides are powers of two, no longer than the
// result needs.
double TileLoss(const proto::Device& device, const CallWork& call) {
  if (device.processors() <= 0 || call.products <= 0) return 1;
  const double processors = device.processors(), results = call.products * call.rows * call.columns;
  const auto taken = [&](double tile_rows, double tile_columns) {
    const double rows = std::min(tile_rows, std::exp2(std::ceil(std::log2(call.rows))));
    const double columns = std::min(tile_columns, std::exp2(std::ceil(std::log2(call.columns))));
    const double tiles =
        call.products * std::ceil(call.rows / rows) * std::ceil(call.columns / columns);
    return std::ceil(tiles / processors) * processors * rows * columns;
  };
  const double a = std::max(1, device.tile_rows()), b = std::max(1, device.tile_columns());
  return std::max(1.0, std::min(taken(a, b), taken(b, a)) / results);
}

double Log(double x) { return std::log2(1 + x); }

DType ToDType(proto::DataType type) {
  if (type == proto::BF16) return DType::kBF16;
  if (type == proto::F64) return DType::kF64;
  return type == proto::I32 ? DType::kI32 : DType::kF32;
}

// The share of the peak that a call of this size reaches.
double FindShare(const google::protobuf::RepeatedPtrField<proto::Efficiency>& steps, double size) {
  const proto::Efficiency* best = nullptr;
  const proto::Efficiency* smallest = nullptr;
  for (const proto::Efficiency& step : steps) {
    if (smallest == nullptr || step.above() < smallest->above()) smallest = &step;
    if (step.above() > size) continue;
    if (best == nullptr || step.above() > best->above()) best = &step;
  }
  if (smallest == nullptr) return 1;
  const double share = (best != nullptr ? best : smallest)->share();
  return share > 0 ? share : 1;
}

// It is bound by another link than the device's memory, of which it says nothing.
bool IsHostCopy(const std::string& kernel) { return kernel == "copy_in" || kernel == "copy_out"; }

}  // namespace

void SetProduct(const ProductSpec& product, CallWork* call) {
  if (product.Empty()) return;
  call->products = static_cast<double>(product.batch);
  call->rows = static_cast<double>(product.m);
  call->columns = static_cast<double>(product.n);
}

KernelCost::KernelCost(const proto::Device& device) : device_(device) {
  device_.clear_kernel_time();
  for (const proto::KernelTime& time : device.kernel_time()) {
    const DType dtype = ToDType(time.dtype());
    const double roofline = Roofline({time.kernel(), dtype, time.flops(), time.bytes()});
    if (roofline <= 0 || time.seconds() <= 0) continue;
    samples_.push_back({time.kernel(), dtype, Log(time.flops()), Log(time.bytes()),
                        std::log2(time.seconds() / roofline)});
  }
}

double KernelCost::Roofline(const CallWork& call) const {
  double peak = device_.peak_flops();
  const bool product = IsProduct(call.kernel);
  if (product && call.dtype == DType::kBF16 && device_.peak_flops_bf16() > 0) {
    peak = device_.peak_flops_bf16();
  }
  if (peak <= 0) peak = kFlops;
  const double bandwidth = device_.memory_bandwidth() > 0 ? device_.memory_bandwidth() : kBandwidth;
  const double share = product ? FindShare(device_.matrix_efficiency(), call.flops) : 1;
  const double compute =
      call.flops / (peak * share) * (product && samples_.empty() ? TileLoss(device_, call) : 1);
  const double memory =
      call.bytes / (bandwidth * FindShare(device_.memory_efficiency(), call.bytes));
  return device_.no_overlap() ? compute + memory : std::max(compute, memory);
}

// A weighted mean of shares is at least the least of them.
double KernelCost::LeastSeconds(double bytes) const {
  const double bandwidth = device_.memory_bandwidth() > 0 ? device_.memory_bandwidth() : kBandwidth;
  double reached = device_.memory_efficiency().empty() ? 1 : 0;
  for (const proto::Efficiency& step : device_.memory_efficiency()) {
    reached = std::max(reached, step.share() > 0 ? step.share() : 1);
  }
  bool any = false;
  double least = 0;  // log2 of a share
  for (const Sample& s : samples_) {
    least = any ? std::min(least, s.log_share) : s.log_share;
    any = true;
  }
  return bytes / (bandwidth * reached) * std::exp2(least);
}

double KernelCost::Seconds(const CallWork& call) const {
  const double flops = Log(call.flops), bytes = Log(call.bytes);
  // Same kernel and type; else same kernel; else any.
  for (const int needed : {2, 1, 0}) {
    double weights = 0, sum = 0;
    for (const Sample& s : samples_) {
      const int match = s.kernel != call.kernel ? 0 : s.dtype == call.dtype ? 2 : 1;
      if (match < needed || (match == 0 && IsHostCopy(s.kernel))) continue;
      const double square = (s.log_flops - flops) * (s.log_flops - flops) +
                            (s.log_bytes - bytes) * (s.log_bytes - bytes);
      const double weight = 1 / (square * square + 1e-12);
      weights += weight;
      sum += weight * s.log_share;
    }
    if (weights > 0) return Roofline(call) * std::exp2(sum / weights);
  }
  return Roofline(call);
}

}  // namespace oneflow
