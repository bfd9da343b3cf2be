// The figures of a plan by which its predicted time has a band (oneflow_core/print/band.h).
//
//   const Band band = FindPlanBand(cluster, plan, "train");
#pragma once

#include <string_view>

#include "oneflow_core/print/band.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Tokens are those of one step, also where the orders hold several. Any program but "train"
// computes no training step.
RunFigures FindFigures(const proto::Plan& plan, std::string_view program);

Band FindPlanBand(const proto::Cluster& cluster, const proto::Plan& plan, std::string_view program);

}  // namespace oneflow
