// The time of one call of a kernel on a device.
//
//   const KernelCost cost(cluster.device());
//   double seconds = cost.Seconds({"linear+gelu", DType::kF32, /*flops=*/2e9, /*bytes=*/3e7});
//
// A kernel belongs to a class (OpDef::FindKernelClass), which has figures of its own in the cluster
// file. A class without figures has the roofline max(flops / peak, bytes / bandwidth), never the
// figures of another:
//   products    by tiles and waves (product_cost.h), or as their operands come from memory; at the
//               peak of their type
//   attention   FLOPs over the rate of its library at its length and head size, at most the peak of
//               its type
//   elements, rows, gather
//               kernel_seconds + bytes over the share of the bandwidth that the class reaches; or
//               FLOPs over the f32 peak, in which all of them compute
// The rates that a step sustains (proto::Sustained) divide these: `compute` those of products and
// attention, `memory` the bandwidth.
//
// If the file has measured calls of the class (`oneflow calibrate`), the roofline is multiplied by
// the measured share instead. The share is measured / roofline of the calls of the same kernel and
// type. Each call is weighted by its nearness in (flops, bytes), on a log scale. So a measured call
// has its measured time, and shapes between two measured ones are interpolated. Without calls of
// the type those of the kernel count, without these those of the class. Kernels of no op (copies
// between host and device, timed by host_cost.h) are of no class.
//
// A device that states no rates has 100 GFLOP/s and 10 GB/s.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/op/attention_spec.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/product_spec.h"
#include "oneflow_core/tensor/dtype.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct CallWork {
  std::string kernel;           // a form of a kind of op (FormName), or a kernel that is no op's
  DType dtype = DType::kF32;    // of its products, or of its first input
  double flops = 0, bytes = 0;  // of the call; bytes read and written
  ProductSpec product = {};     // empty: not one product, or not known which
  AttentionSpec attention = {};
};

// True if a call's time depends on more than its FLOPs and bytes.
inline bool HasSizes(const OpDef& def) { return def.product || def.attention; }

// Sets the call's product, or its attention, if the op is one.
void SetSizes(const OpDef& def, const LocalOp& op, CallWork* call);

class KernelCost {
 public:
  explicit KernelCost(const proto::Device& device);
  double Seconds(const CallWork& call) const;
  // max(flops / peak, bytes / bandwidth), with the device's figures or those of a device that
  // states none.
  double Roofline(const CallWork& call) const;
  // A lower bound of Seconds of every call that reads and writes `bytes` or more.
  double LeastSeconds(double bytes) const;

 private:
  using MaybeClass = std::optional<KernelClass>;
  struct Sample {
    std::string kernel;
    MaybeClass kernel_class;
    DType dtype;
    double log_flops, log_bytes, log_share;
  };

  double Peak(MaybeClass kernel_class, DType dtype) const;
  double Bandwidth() const;
  // Seconds by the class's figures, for a class without measured calls.
  double Modelled(MaybeClass kernel_class, const CallWork& call) const;
  // FLOP/s; 0: not known.
  double AttentionRate(const AttentionSpec& attention) const;

  proto::Device device_;  // without measured calls, and rates of other libraries
  std::vector<Sample> samples_;
};

}  // namespace oneflow
