// Which primitives turn one nd-SBP into another on the devices of one stage, and what they move.
// The knowledge that infer_sbp (prices) and insert_boxing (ops) share. Not a pass.
//
// A primitive changes one mesh axis. Bytes moved for a tensor of T bytes over an axis of p devices:
//
//   S -> B  all_gather      (p-1) T        B -> S  slice      0
//   P -> S  reduce_scatter  (p-1) T        B -> P  zero_fill  0
//   P -> B  all_reduce    2 (p-1) T        S(i) -> S(j)  all_to_all  (p-1)/p T
//
// all times the number of groups along the other axes that hold different or equal copies.
// S -> P goes through B. Nothing becomes Pmax; Pmax becomes B or S as P does. Prices add a tenth to
// all_gather and reduce_scatter: a pair of them waits for the slowest twice, an all_reduce once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

// What one primitive costs beyond its bytes, in bytes: so that fewer boxings win.
inline constexpr double kBoxingLatency = 1024;
// Larger partial tensors are reduced by reduce_scatter and all_gather, in pieces.
inline constexpr int64_t kAllReduceBytes = 64 * 1024;
// More than any plan costs.
inline constexpr double kImpossible = 1e30;

// The primitive from one SBP to a different one on one axis; "" if there is none.
std::string_view BoxingKind(Sbp from, Sbp to);

// Bytes moved by a primitive, or by the way through B, on one axis, latency included; 0 if equal.
double TransitionPrice(Sbp from, Sbp to, double bytes, int devices);

struct BoxingStep {
  int axis = 0;
  NdSbp to;  // differs from the SBP before only on `axis`
};

// The cheapest way. Two axes that split the same dimension are cut in mesh order, so a primitive on
// an axis may split or unsplit a dimension only while no later axis splits it: the way un-splits
// the later axis first where it must. Empty if from == to. Deterministic.
std::vector<BoxingStep> BoxingPath(const Mesh& mesh, const Dims& dims, int64_t bytes,
                                   const NdSbp& from, const NdSbp& to);

}  // namespace oneflow
