// The path from one nd-SBP to another on the devices of one stage: a shortest path over the
// primitives of boxing_primitive.h, in seconds on a cluster. Complete: there is one for every pair.
// Not a pass.
//
//   const BoxingPrices prices{cluster, mesh};
//   for (const BoxingStep& step : BoxingPath(prices, {{64, 768}, 4}, {S(0), P()}, {S(0), B()}))
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/boxing/boxing_primitive.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// What a primitive on the devices of a mesh takes: BoxingTime, which is what the simulator takes
// for the actor that it becomes.
struct BoxingPrices {
  const proto::Cluster& cluster;
  const Mesh& mesh;
  const KernelCost* kernels = nullptr;  // of the cluster's device; null: made where it is needed
};

// The mesh on which all is priced that stays within a stage: the same axes, with one stage. So no
// number of stages moves a bit (law 6).
Mesh OneStage(Mesh mesh);

// A tensor that is boxed.
struct BoxedTensor {
  Dims dims;
  int64_t element_bytes = 4;
  DType dtype = DType::kF32;  // measured copies may differ by it
};
BoxedTensor ToBoxed(const Tensor& tensor);

struct BoxingStep {
  std::string_view kind;
  NdSbp to;
  int64_t bytes = 0;   // that the device receives which receives most
  double seconds = 0;  // of one firing
};

// What a device has to do in one firing of the primitive from `from` to `to`, which there is; and
// of a transfer, in which each device of a stage is sent its part by that of another stage.
BoxingWork WorkBetween(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& from,
                       const NdSbp& to);
BoxingWork TransferWork(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& sbp, int from,
                        int to);
// Bytes that a device of the plan takes from others. A sum of all reads each member once, in the
// place of the ring by which links are priced.
double BytesTaken(const BoxingWork& work);

// Seconds of one firing.
double BoxingSeconds(const BoxingPrices& prices, const BoxingWork& work);

// The one primitive from `from` to `to`; its kind is "" where there is none.
BoxingStep BoxingStepBetween(const BoxingPrices& prices, const BoxedTensor& tensor,
                             const NdSbp& from, const NdSbp& to);

// The path that takes the fewest seconds; of equal ones that of the fewest steps, then the first in
// the order of axes. Empty if from == to. Between its ends nothing is empty or partial but where an
// end is. Deterministic.
std::vector<BoxingStep> BoxingPath(const BoxingPrices& prices, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to);

}  // namespace oneflow
