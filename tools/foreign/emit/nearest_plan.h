// From a plan to the nearest one of another system, compiled and simulated.
//
//   ASSIGN_OR_RETURN(const Job job, JobFromPlan(plan, run, cluster));
//   ASSIGN_OR_RETURN(const NearestPlan nearest, FindNearestPlan(System::kTorchtitan, job, on));
//   nearest.rounded.roundings    // what differs
//   nearest.seconds - nearest.seconds_before
//   WriteFor(System::kTorchtitan, nearest.rounded.job)
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "tools/foreign/emit/emit.h"

namespace oneflow::foreign {

// The plan's model, recipe and optimizer, with the layers of its slices. `run`: steps and seed, and
// numbers of the optimizer that count in place of the plan's. `cluster`: its innermost level is a
// node. An input error where the graph is no model of `oneflow model`.
absl::StatusOr<Job> JobFromPlan(const proto::Plan& plan, const proto::Run& run,
                                const proto::Cluster& cluster);

// Blocks of each slice along the pipe; empty of a plan of one stage.
std::vector<int> FindSliceLayers(const proto::Plan& plan, int layers);

struct PlanToRound {
  const proto::Plan& plan;        // proved
  const proto::Cluster& cluster;  // that times are for
  double imbalance = 0;           // of the plan's price (price_queues.h)
};

struct NearestPlan {
  Rounded rounded;
  double seconds = 0, seconds_before = 0;  // of a step; 0: not simulated
  int64_t bytes = 0, bytes_before = 0;     // of the largest device
};

// Of the values that are as near, the one of the shortest step that fits. RESOURCE_EXHAUSTED, with
// what is rounded, where none fits; errors of RoundFor.
absl::StatusOr<NearestPlan> FindNearestPlan(System system, const Job& job, const PlanToRound& on);

}  // namespace oneflow::foreign
