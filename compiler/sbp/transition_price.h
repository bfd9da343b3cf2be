// What turning one SBP into another on ONE mesh axis takes, as the search of infer_sbp sees it: the
// prices of boxing_path.h, as if all parts were even. Part of infer_sbp.
#pragma once

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct AxisPrices {
  double devices = 1;
  double latency = 0, bandwidth = 1;  // of the link along the axis
  double memory = 1;                  // bytes/s
  double firing = 0;                  // seconds
};
AxisPrices PricesOn(const proto::Cluster& cluster, const Mesh& mesh, int axis);

// Seconds of the cheapest way, of a tensor of `bytes` in each group along the axis; 0 if equal.
double TransitionSeconds(const AxisPrices& prices, Sbp from, Sbp to, double bytes);

}  // namespace oneflow
