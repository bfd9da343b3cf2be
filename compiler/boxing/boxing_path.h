// The path from one nd-SBP to another on the devices of one stage: a shortest path over the
// primitives of boxing_primitive.h, in seconds on a cluster. Every pair has a path. Not a pass.
//
//   const BoxingCosts costs{cluster, mesh};
//   for (const BoxingStep& step : BoxingPath(costs, {{64, 768}, 4}, {S(0), P()}, {S(0), B()}))
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

// Gives the costs of primitives on the devices of a mesh: BoxingTime, which the simulator also
// takes for the actors that primitives become.
struct BoxingCosts {
  const proto::Cluster& cluster;
  const Mesh& mesh;
  const KernelCost* kernels = nullptr;  // of the cluster's device; null: made where it is needed
};

// Returns the same axes with one stage: the mesh whose costs decide all boxing within a stage. So
// the number of stages changes no bit (law 6).
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
  int64_t bytes = 0;   // received by the device that receives most
  double seconds = 0;  // of one firing
};

// The work of a device in one firing of the primitive from `from` to `to`, which must exist; and in
// one firing of a transfer. In a transfer each device of a stage sends its part to one of another
// stage.
BoxingWork WorkBetween(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& from,
                       const NdSbp& to);
BoxingWork TransferWork(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& sbp, int from,
                        int to);
// The work of a device in one firing of a boxing op.
BoxingWork MakeWork(const Graph& graph, const Op& op);
// Bytes that a device of the plan reads from others. An all-reduce reads each member once, where
// the times of links assume a ring.
double BytesTaken(const BoxingWork& work);

// Seconds of one firing.
double BoxingSeconds(const BoxingCosts& costs, const BoxingWork& work);

// Returns the one primitive from `from` to `to`; its kind is "" if there is none.
BoxingStep BoxingStepBetween(const BoxingCosts& costs, const BoxedTensor& tensor, const NdSbp& from,
                             const NdSbp& to);

// Returns the path of the fewest seconds; among equals the one of the fewest steps, then the first
// in the order of axes. It is empty if from == to. A layout between the two leaves a device empty,
// or is partial, only where `from` or `to` is. Deterministic.
std::vector<BoxingStep> BoxingPath(const BoxingCosts& costs, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to);

}  // namespace oneflow
