// The costs of any mix of kinds of blocks of a plan group, from short plans of each kind alone. A
// kind is a class of blocks (block_classes.h) with a policy of recompute.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "planning/search/candidate.h"
#include "planning/search/played_step.h"
#include "planning/search/short_plan.h"

namespace oneflow {

// Policies of recompute in the order of the time that they cost.
inline constexpr std::string_view kPolicies[] = {"none", "attention", "selective", "full"};

// The group with one policy for all blocks. `gathers`: what the forward gathers of activations, the
// backward gathers again.
proto::Recipe WithPolicy(proto::Recipe group, std::string_view policy, bool gathers = false);

// The number of blocks of each class.
using ClassCounts = std::vector<int>;
// The number of blocks of each kind: of class c with policy p at c * policies + p.
using KindCounts = std::vector<int>;

// Those of each slice. `slices`: blocks of each slice along the pipe; `classes`: by block.
std::vector<ClassCounts> CountClasses(const std::vector<int>& classes,
                                      const std::vector<int>& slices);

// The blocks of a class that have each policy divided over the chunks of a stage, with `rooms` of
// these blocks each, as nearly equally as can be. Requires as many blocks.
std::vector<std::vector<int>> SplitOverChunks(const std::vector<int>& counts,
                                              const std::vector<int>& rooms);

class GroupCosts {
 public:
  // `costs`: of each kind, with as many of kPolicies as were measured, one at least. `slices`:
  // blocks of each class in each slice along the pipe, stages times chunks. How many micro-batches
  // a stage holds depends on the warm-ups: they are fitted to these blocks and the first policy.
  static absl::StatusOr<GroupCosts> Make(const PlanRequest& given, const proto::Recipe& group,
                                         std::vector<ShortCosts> costs,
                                         std::vector<ClassCounts> slices);

  // With orders fitted to these counts, by stage.
  GroupCosts FittedTo(const std::vector<KindCounts>& counts) const;
  // With as few micro-batches held as with any warm-ups.
  GroupCosts WithLeastHeld() const;
  bool fits_orders() const { return fits_orders_; }

  const std::vector<ClassCounts>& slices() const { return slices_; }
  int stages() const { return static_cast<int>(by_stage_.size()); }
  int chunks() const { return static_cast<int>(slices_.size()) / stages(); }
  int classes() const { return static_cast<int>(slices_[0].size()); }
  int kinds() const { return static_cast<int>(costs_.size()); }
  int policies() const { return kinds() / classes(); }
  int64_t micro_batches() const { return micro_batches_; }

  // The costs of a slice all of whose blocks are of one kind.
  const StageCosts& AtSlice(int slice, int kind) const;
  // All blocks of a stage with one policy.
  KindCounts WithPolicy(const ClassCounts& blocks, int policy) const;
  ClassCounts BlocksOfStage(int stage) const;

  // Seconds of a micro-batch on a stage.
  double Seconds(int stage, const KindCounts& counts) const;
  // The lower bound of its bytes: at one of some times of a step, what is held then, and what comes
  // and goes (stage_loads.h).
  double Bytes(int stage, const KindCounts& counts) const;
  const std::vector<Held>& times(int stage) const { return times_[stage]; }
  // Seconds of a step; `counts` by stage.
  absl::StatusOr<double> StepSeconds(const std::vector<KindCounts>& counts) const;

 private:
  // The costs of a stage all of whose blocks are of one kind, by the number of these.
  struct Stage {
    Linear seconds, firings, firings_once, fit_saved, fit_kept;
    LinearTasks kernels;
    std::map<std::string, StageCosts::Stream> streams;
  };

  template <typename Value>
  Linear Sum(int stage, int kind, Value value) const;
  Stage MakeStage(int stage, int kind) const;
  void CountTimes();
  void KeepMost(int stage);
  std::vector<KindCounts> Split(int stage, const KindCounts& counts) const;
  double FindKept(int stage, const KindCounts& counts) const;
  double FindAhead(int slice, const KindCounts& counts) const;
  Schedule FitOrders(const std::vector<KindCounts>& counts) const;
  PipeSeconds FindSpans(const std::vector<KindCounts>& counts) const;

  Schedule schedule_;
  bool fits_orders_ = false;  // that it has, depend on the counts
  std::vector<ShortCosts> costs_;
  std::vector<ClassCounts> slices_;
  std::vector<std::vector<Stage>> by_stage_;  // [stage][kind]
  std::vector<std::vector<Held>> times_;      // [stage]
  int64_t micro_batches_ = 1;
  bool overlap_ = false;  // of steps
};

// The bytes that the blocks of a slice of one kind hold at a time.
Linear FindHeld(const StageCosts& slice, const Held& held, int chunk);

// The bytes that come and go when a B of a slice begins, or is over.
double TransientBytes(const StageCosts& slice, bool over);

}  // namespace oneflow
