// The stages of a simulated draft: how long their tasks take, and which bytes they hold.
//
//   ASSIGN_OR_RETURN(const proto::Plan plan, DraftPlan(source, options));
//   ASSIGN_OR_RETURN(const SimulatedRun run, SimulateProved(cluster, plan, "train", /*steps=*/2));
//   ASSIGN_OR_RETURN(const std::vector<StageRun> stages, FindStageRuns(plan, run));
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/play_orders.h"
#include "planning/simulate/simulate.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The work of a stream of exchanges, copies, or the host.
struct StreamUse {
  double each = 0;  // seconds of a micro-batch
  double once = 0;  // of a step, beside these
};

// The most bytes that a stage holds while it does a part of its work (lower_bound.h).
struct StageHeld {
  // Bytes of a model's head, its blocks from the first one on, and its embedding, forward or
  // backward.
  double head = 0, tail = 0;
  std::vector<double> blocks;
  double update = 0;
  double any = 0;  // of all else
};

// The numbers of all chunks of a stage together.
struct StageRun {
  // Seconds of a micro-batch: from the begin of a task's first firing to the end of its last one,
  // without what it waits for another stage, as short as it is in a step; and the sum of its
  // kernels.
  TaskSeconds spans, kernels;
  // The part of a backward that comes before it needs a gradient of another stage.
  double ahead = 0;
  // From one forward of the last chunk to the next, at the end of a step.
  double cycle = 0;
  std::map<std::string, StreamUse> streams;  // by name, but for those of kernels
  double firings = 0, firings_once = 0;      // that the host issues
  StageHeld held;
  // Bytes: variables and casts of weights, which are always there; sums of gradients; and of a
  // micro-batch, from its F to its B, and from B to W.
  double resident = 0, sums = 0, saved = 0, kept = 0;
  // Saved by F, and read by W, as compile counts them when it fits an order to the stages.
  double fit_saved = 0, fit_kept = 0;

  double KeptForWeights() const { return fit_saved > 0 && fit_kept > 0 ? fit_kept / fit_saved : 1; }
};

// By stage. Requires a run of two steps of the program train.
absl::StatusOr<std::vector<StageRun>> FindStageRuns(const proto::Plan& plan,
                                                    const SimulatedRun& run);

// The seconds of a transfer between two stages for a micro-batch, at most.
double FindLinkSeconds(const proto::Plan& plan, const SimulatedRun& run);

}  // namespace oneflow
