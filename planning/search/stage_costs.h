// The costs of any mix of policies on the blocks of a plan group, from short plans of each policy
// alone.
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

// The number of blocks of a stage that have each policy.
using PolicyCounts = std::vector<int>;

// The counts of a stage divided over its chunks, with `rooms` blocks each, as nearly equally as can
// be. Requires as many blocks.
std::vector<PolicyCounts> SplitOverChunks(const PolicyCounts& counts,
                                          const std::vector<int>& rooms);

class GroupCosts {
 public:
  // `costs`: of kPolicies, as many as were measured, one at least. `slices`: blocks of each slice
  // along the pipe, stages times chunks. How many micro-batches a stage holds depends on the
  // warm-ups: they are fitted to these blocks and the first policy.
  static absl::StatusOr<GroupCosts> Make(const PlanRequest& given, const proto::Recipe& group,
                                         std::vector<ShortCosts> costs,
                                         const std::vector<int>& slices);

  // With orders fitted to these counts, by stage.
  GroupCosts FittedTo(const std::vector<PolicyCounts>& counts) const;
  // With as few micro-batches held as with any warm-ups.
  GroupCosts WithLeastHeld() const;
  bool fits_orders() const { return fits_orders_; }

  const std::vector<int>& slices() const { return slices_; }
  int stages() const { return static_cast<int>(by_stage_.size()); }
  int policies() const { return static_cast<int>(costs_.size()); }

  // Seconds of a micro-batch on a stage.
  double Seconds(int stage, const PolicyCounts& counts) const;
  // The lower bound of its bytes: at one of some times of a step, what is held then, and what comes
  // and goes.
  double Bytes(int stage, const PolicyCounts& counts) const;
  // At each of these times, what a stage of n blocks with one policy holds.
  const std::vector<Linear>& HeldBytes(int stage, int policy) const {
    return by_stage_[stage][policy].held;
  }
  // The same of a block of one chunk, at one of these times.
  double HeldByBlock(int stage, int chunk, int policy, size_t time) const;
  // Seconds of a step; `counts` by stage.
  absl::StatusOr<double> StepSeconds(const std::vector<PolicyCounts>& counts) const;

 private:
  // The costs of a stage all of whose blocks have one policy, by the number of these.
  struct Stage {
    Linear seconds, firings, firings_once, fit_saved, fit_kept;
    LinearTasks kernels;
    std::map<std::string, StageCosts::Stream> streams;
    std::vector<Linear> held;  // by time
  };

  const StageCosts& AtSlice(int slice, int policy) const;
  template <typename Value>
  Linear Sum(int stage, int policy, Value value) const;
  Stage MakeStage(int stage, int policy) const;
  void CountBytes();
  void KeepMost(int stage);
  double FindBackward(int slice, const PolicyCounts& counts) const;
  std::vector<PolicyCounts> Split(int stage, const PolicyCounts& counts) const;
  double FindKept(int stage, const PolicyCounts& counts) const;
  Schedule FitOrders(const std::vector<PolicyCounts>& counts) const;
  PipeSeconds FindSpans(const std::vector<PolicyCounts>& counts) const;

  Schedule schedule_;
  bool fits_orders_ = false;  // that it has, depend on the counts
  std::vector<ShortCosts> costs_;
  std::vector<int> slices_;
  std::vector<std::vector<Stage>> by_stage_;  // [stage][policy]
  std::vector<std::vector<Held>> times_;      // [stage]
  int64_t micro_batches_ = 1;
  bool overlap_ = false;  // of steps
};

}  // namespace oneflow
