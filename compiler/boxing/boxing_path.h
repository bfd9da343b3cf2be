// The way from one nd-SBP to another on the devices of one stage: a shortest path over the
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
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// What a primitive on the devices of a mesh takes. The cluster says how fast links and memory are,
// and what a firing costs; what it does not say is 1 us and 10 GB/s of a link, 200 GB/s of memory
// and 0.1 us a firing. On accelerators these are the simulator's prices (actor_cost.h).
struct BoxingPrices {
  const proto::Cluster& cluster;
  const Mesh& mesh;
  const KernelCost* kernels = nullptr;  // of the cluster's device; null: made where it is needed
};

// A tensor that is boxed.
struct BoxedTensor {
  Dims dims;
  int64_t element_bytes = 4;
};

struct BoxingStep {
  std::string_view kind;
  NdSbp to;
  int64_t bytes = 0;  // that the device receives which receives most
  // One firing: latency, bytes received over the slowest link and, but for exchanges of
  // accelerators, bytes written.
  double seconds = 0;
};

// Of one firing, what goes over links: `bytes` received, as BoxingStep counts them. A sum of all
// receives one from each member there; on accelerators it goes in a ring, or a tree. 0 where
// nothing is received.
double ReceiveSeconds(const BoxingPrices& prices, const BoxingPrimitive& primitive, double bytes);

// The one primitive from `from` to `to`; its kind is "" where there is none.
BoxingStep BoxingStepBetween(const BoxingPrices& prices, const BoxedTensor& tensor,
                             const NdSbp& from, const NdSbp& to);

// The way that takes the fewest seconds; of equal ones that of the fewest steps, then the first in
// the order of axes. Empty if from == to. Between its ends nothing is empty or partial but where an
// end is. Deterministic.
std::vector<BoxingStep> BoxingPath(const BoxingPrices& prices, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to);

}  // namespace oneflow
