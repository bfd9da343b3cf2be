#include "oneflow_core/cost/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "oneflow_core/cost/product_cost.h"

namespace oneflow {
namespace {

constexpr double kFlops = 1e11, kBandwidth = 1e10;  // of a device that says nothing

std::optional<KernelClass> FindKernelClass(std::string_view kernel) {
  const OpDef* def = FindOpDef(kernel);
  return def == nullptr ? std::nullopt : std::optional(def->FindKernelClass());
}

double Log(double x) { return std::log2(1 + x); }

DType ToDType(proto::DataType type) {
  if (type == proto::BF16) return DType::kBF16;
  if (type == proto::F64) return DType::kF64;
  return type == proto::I32 ? DType::kI32 : DType::kF32;
}

bool ComputesProducts(std::optional<KernelClass> kernel_class) {
  return kernel_class == KernelClass::kProducts || kernel_class == KernelClass::kAttention;
}

double FindShare(const proto::MemoryShares& shares, std::optional<KernelClass> kernel_class) {
  if (kernel_class == KernelClass::kRows) return OrOne(shares.rows());
  if (kernel_class == KernelClass::kGather) return OrOne(shares.gather());
  return OrOne(shares.elements());
}

}  // namespace

void SetSizes(const OpDef& def, const LocalOp& op, CallWork* call) {
  if (def.product) call->product = def.product(op);
  if (def.attention) call->attention = def.attention(op);
}

KernelCost::KernelCost(const proto::Device& device) : device_(device) {
  device_.clear_kernel_time();
  device_.clear_attention();
  for (const proto::AttentionRates& rates : device.attention()) {
    if (rates.library() == device.attention_library()) *device_.add_attention() = rates;
  }
  for (const proto::KernelTime& time : device.kernel_time()) {
    const DType dtype = ToDType(time.dtype());
    const double roofline = Roofline({time.kernel(), dtype, time.flops(), time.bytes()});
    if (roofline <= 0 || time.seconds() <= 0) continue;
    samples_.push_back({time.kernel(), FindKernelClass(time.kernel()), dtype, Log(time.flops()),
                        Log(time.bytes()), std::log2(time.seconds() / roofline)});
  }
}

double KernelCost::Peak(MaybeClass kernel_class, DType dtype) const {
  const bool narrow = dtype == DType::kBF16 && device_.peak_flops_bf16() > 0;
  const double peak =
      ComputesProducts(kernel_class) && narrow ? device_.peak_flops_bf16() : device_.peak_flops();
  return peak > 0 ? peak : kFlops;
}

double KernelCost::Bandwidth() const {
  return device_.memory_bandwidth() > 0 ? device_.memory_bandwidth() : kBandwidth;
}

double KernelCost::Roofline(const CallWork& call) const {
  return std::max(call.flops / Peak(FindKernelClass(call.kernel), call.dtype),
                  call.bytes / Bandwidth());
}

// On a scale of logarithms between the two nearest lengths; below all in proportion to the length,
// above all as at the longest.
double KernelCost::AttentionRate(const AttentionSpec& attention) const {
  const proto::AttentionRates* nearest = nullptr;
  const auto distance = [&](const proto::AttentionRates& rates) {
    return std::abs(rates.head_size() - attention.head_size);
  };
  for (const proto::AttentionRates& rates : device_.attention()) {
    if (nearest == nullptr || distance(rates) < distance(*nearest)) nearest = &rates;
  }
  if (nearest == nullptr || attention.keys <= 0) return 0;
  const auto& rates = attention.backward ? nearest->backward() : nearest->forward();
  const auto& lengths = nearest->keys();
  const auto keys = static_cast<double>(attention.keys);
  const auto length = [&](int i) { return static_cast<double>(lengths[i]); };
  int i = 0;  // the first that is as long
  while (i < lengths.size() && lengths[i] < attention.keys) ++i;
  if (i == lengths.size()) return rates[i - 1];
  if (i == 0) return rates[0] * keys / length(0);
  const double part = std::log2(keys / length(i - 1)) / std::log2(length(i) / length(i - 1));
  return rates[i - 1] * std::pow(rates[i] / rates[i - 1], part);
}

double KernelCost::Modelled(MaybeClass kernel_class, const CallWork& call) const {
  const double compute_share = OrOne(device_.sustained().compute());
  const double bandwidth = Bandwidth() * OrOne(device_.sustained().memory()) *
                           FindShare(device_.memory_shares(), kernel_class);
  const double memory = call.bytes / bandwidth;
  const double peak = Peak(kernel_class, call.dtype);
  if (kernel_class == KernelClass::kProducts) {
    const proto::Products& products = device_.products();
    const double start = products.start_seconds();
    if (products.processors() > 0 && !call.product.Empty()) {
      const double tiles =
          ProductSeconds(products, peak * compute_share, call.product, call.dtype) - start;
      return start + std::max(tiles, memory);
    }
    return start + std::max(call.flops / (peak * compute_share * OrOne(products.share())), memory);
  }
  if (kernel_class == KernelClass::kAttention) {
    const double known = AttentionRate(call.attention);
    const double rate = known > 0 ? std::min(known, peak) : peak;  // rates are those of bf16
    return device_.kernel_seconds() + std::max(call.flops / (rate * compute_share), memory);
  }
  return device_.kernel_seconds() + std::max(call.flops / peak, memory);
}

// A weighted mean of shares is at least the least of them.
double KernelCost::LeastSeconds(double bytes) const {
  const proto::MemoryShares& shares = device_.memory_shares();
  const double reached =
      std::max({OrOne(shares.elements()), OrOne(shares.rows()), OrOne(shares.gather())});
  double least = 0;  // log2 of a share, at most 1: not all classes were measured
  for (const Sample& s : samples_) least = std::min(least, s.log_share);
  const double sustained = std::max(1.0, OrOne(device_.sustained().memory()));
  return bytes / (Bandwidth() * std::max(1.0, reached) * sustained) * std::exp2(least);
}

double KernelCost::Seconds(const CallWork& call) const {
  const MaybeClass kernel_class = FindKernelClass(call.kernel);
  const double flops = Log(call.flops), bytes = Log(call.bytes);
  // Same kernel and type; else same kernel; else same class.
  for (const int needed : {2, 1, 0}) {
    double weights = 0, sum = 0;
    for (const Sample& s : samples_) {
      const int match = s.kernel != call.kernel ? 0 : s.dtype == call.dtype ? 2 : 1;
      if (match < needed || (match == 0 && (!kernel_class || s.kernel_class != kernel_class)))
        continue;
      const double square = (s.log_flops - flops) * (s.log_flops - flops) +
                            (s.log_bytes - bytes) * (s.log_bytes - bytes);
      const double weight = 1 / (square * square + 1e-12);
      weights += weight;
      sum += weight * s.log_share;
    }
    if (weights > 0) return Roofline(call) * std::exp2(sum / weights);
  }
  return Modelled(kernel_class, call);
}

}  // namespace oneflow
