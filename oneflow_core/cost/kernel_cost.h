// How long one call of a kernel takes on a device: a roofline, and what measured calls say of it.
//
//   const KernelCost cost(cluster.device());
//   double seconds = cost.Seconds({"linear+gelu", DType::kF32, /*flops=*/2e9, /*bytes=*/3e7});
//
// Roofline: max(flops / rate, bytes / memory rate), with the rates that the cluster file gives for
// the call's size; their sum where the device says `no_overlap`. Products of matrices
// (OpDef::HasProducts) go at the rate of their type, all else, which is computed in f32, at the f32
// peak. If the device has a number of processors, and no call was measured, each processor computes
// one tile of a product's result at a time: a last wave with few tiles, and tiles that stand out,
// cost as much as full ones (NVIDIA, Matrix Multiplication Background User's Guide, "Dimension
// Quantization Effects"). If the file has measured calls (`oneflow calibrate`), the roofline is
// multiplied by the measured share: measured / roofline of the calls of the same kernel and type,
// each weighted by its nearness in (flops, bytes), on a log scale. So a measured call costs what
// was measured, and shapes between two measured ones are interpolated. A kernel that was not
// measured takes the share of all that were: those near it in size and intensity. Copies between
// the host and the device (copy_in, copy_out) say nothing of other kernels, and are priced by
// host_cost.h.
//
// A device that says nothing has 100 GFLOP/s and 10 GB/s.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/op/product_spec.h"
#include "oneflow_core/tensor/dtype.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct CallWork {
  std::string kernel;           // a form of a kind of op (FormName), or a kernel that is no op's
  DType dtype = DType::kF32;    // of its products, or of its first input
  double flops = 0, bytes = 0;  // of the call; bytes read and written
  // Of the results of products of two matrices: how many there are, and of how many rows and
  // columns. Not known where `products` is 0.
  double products = 0, rows = 0, columns = 0;
};

// Sets what the call's results are to those of `product`, unless it is empty.
void SetProduct(const ProductSpec& product, CallWork* call);

class KernelCost {
 public:
  explicit KernelCost(const proto::Device& device);
  double Seconds(const CallWork& call) const;
  // Without what was measured.
  double Roofline(const CallWork& call) const;
  // A lower bound of Seconds of every call that reads and writes `bytes` or more.
  double LeastSeconds(double bytes) const;

 private:
  struct Sample {
    std::string kernel;
    DType dtype;
    double log_flops, log_bytes, log_share;
  };
  proto::Device device_;  // rates only
  std::vector<Sample> samples_;
};

}  // namespace oneflow
