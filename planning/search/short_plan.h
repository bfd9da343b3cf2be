// The costs of the stages of a plan group, measured on a short plan: few stages with few blocks
// each and few micro-batches, drafted (DraftPlan in compile.h) and simulated. A step and the bytes
// of any number of blocks, stages and micro-batches follow from it: the blocks of a short plan are
// alike, and so are stages in the middle of the pipe. Where a model's blocks differ, each class of
// blocks has short plans of a model that has no others.
//
//   seconds   A stage's forward and backward of a micro-batch are those of its blocks, and of what
//             the first and the last slice of the model have beside them. The orders of the
//             schedule are played with them (play_orders.h). What a simulated step of the short
//             plan takes beyond its played one is added: for each micro-batch, and once a step,
//             each with a part for each block. So exchanges that hide, or do not, are those of the
//             simulator.
//   bytes     those of variables and casts of weights; of sums of gradients; of activations, for as
//             many micro-batches as the schedule has in flight; and what the lower bound of the
//             short plan (lower_bound.h) has beyond these in each part of a stage's work.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph_proto.h"
#include "planning/search/candidate.h"

namespace oneflow {

// A quantity of a slice of n blocks: fixed + n * block.
struct Linear {
  double fixed = 0, block = 0;
  double At(double blocks) const { return fixed + blocks * block; }
};

// TaskSeconds of a micro-batch.
struct LinearTasks {
  Linear forward, backward, weights;
};

// Bytes that come and go while a slice does a part of its work, beyond what it holds then.
struct Transients {
  double head = 0;   // at the begin of a B
  double last = 0;   // in its last block, when the head is over
  double inner = 0;  // in others, when the blocks behind them are over
  double tail = 0;   // at the end of a B
  double any = 0;    // at some other time, beyond the most that is held at one
  Linear update;     // beyond variables and sums
};

// The costs of a slice whose blocks all have one policy of recompute: what StageRun has of a stage.
struct StageCosts {
  struct Stream {
    Linear each, once;
  };
  LinearTasks spans, kernels;
  Linear ahead;
  std::map<std::string, Stream> streams;  // by name
  Linear firings, firings_once;
  Linear resident, sums, saved, kept, fit_saved, fit_kept;  // bytes
  Transients transients;
};

// Bytes that B frees on its way through a block, less the sums of gradients that it leaves there:
// those of one micro-batch are the first.
double FreedByBlock(const StageCosts& slice, int64_t micro_batches);

struct ShortCosts {
  StageCosts first, middle, last;  // one slice alone is `last`
  double link = 0;                 // seconds of a transfer between two stages
  Linear each_micro_batch;         // seconds beyond the played step, by blocks of a stage
  Linear each_step;                // the same, once a step
  double issue_seconds = 0;        // of a firing, by the host
};

// A plan group, all of whose blocks are of one class and have one policy of recompute.
struct ShortPlanSpec {
  proto::Recipe group;
  int block_class = 0;
  int64_t sequences = 1;  // of a micro-batch, of all data parts together
  int64_t devices = 1;    // of the run: of more nodes, the slowest is slower
  // Slots of queues of experts relative to even routing, on one device as on those that split
  // experts; 0: as the graph has them.
  double slots = 0;
};
ShortPlanSpec FindShortSpec(const PlanRequest& given, const proto::Recipe& group,
                            int block_class = 0);

// The plan of blocks that have no experts, in a model where others have some: an axis that splits
// experts splits tokens alone, like one of data.
proto::Recipe WithoutExperts(proto::Recipe recipe);

// Equal for specs that have the same short plans.
std::string ShortPlanKey(const PlanRequest& given, const ShortPlanSpec& spec);

// Errors: those of compile.
absl::StatusOr<ShortCosts> MeasureShortPlan(const GraphSource& source, const PlanRequest& given,
                                            const ShortPlanSpec& spec);

}  // namespace oneflow
