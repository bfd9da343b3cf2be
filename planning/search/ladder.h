// The search knows a plan group (candidate.h) on three rungs, each nearer to the truth:
//
//   kListed     by formulas, from the costs of one device (formula.h)
//   kEstimated  by short plans of the group with the kinds of blocks that its mix has
//               (short_plan.h, block_mix.h)
//   kCompiled   its plan was compiled, proved and simulated
//
//   Ladder ladder(spec, groups);
//   Finding finding = ladder.List(i, packing);
//   finding = ladder.Climb(i, finding.state, packing);   // one rung up, or another mix
#pragma once

#include <cstdint>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/block_classes.h"
#include "planning/search/block_mix.h"
#include "planning/search/result.h"
#include "planning/search/short_plan.h"
#include "planning/search/space.h"
#include "planning/search/stage_costs.h"
#include "proto/plan.pb.h"

namespace oneflow {

enum class Rung { kListed, kEstimated, kCompiled };

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// The fields mean the same on each rung; on a higher one they are nearer to the truth.
struct GroupState {
  Rung rung = Rung::kListed;
  double bound = 0;         // no plan of the group takes less
  double seconds = kNever;  // of its best plan that fits; kNever: none is known to fit
  double bytes = 0;         // that this plan needs of a device; kListed: the least of all mixes
  proto::Recipe candidate;  // this plan; kListed: none yet
  bool tight = false;       // it fits only if packing leaves smaller gaps than usual

  // Of the mixes of a group, those for less memory take longer.
  double capacity = 0;       // for which the candidate's mix was chosen
  double least_seconds = 0;  // of the mix that bounds all, as the candidate's are known
  double fits = 0;           // the most capacity whose mix fitted, compiled
  double too_much = kNever;  // the least capacity whose mix did not fit
  double compiled = kNever;  // seconds of the best plan that was compiled
  double error = 1;          // of the plan compiled last, over what short plans said of it
  int tries = 0;             // mixes that were looked at after the first
  bool leanest = false;      // the candidate is the last resort: all blocks with the last policy
};

// The findings of a climb.
struct Finding {
  GroupState state;
  absl::Status refusal;                  // not OK: the group cannot be compiled
  std::optional<NearestMiss> too_large;  // no mix fits
  bool did_not_fit = false;              // the candidate; state has another
  int64_t short_plans = 0;               // that were made
  double packing = 0;                    // bytes of the compiled plan over those of short plans
  std::optional<FoundPlan> found;
  std::optional<proto::Plan> plan;
  double seconds = 0;  // that the climb took, noted by the search
};

// A plan group, or its plans all of whose blocks have the same policy.
struct GroupToSearch {
  proto::Recipe group;
  bool uniform = false;
};

// Ordinary plans (ordinary.h), then all groups.
std::vector<GroupToSearch> ListToSearch(const SearchSpec& spec,
                                        const std::vector<proto::Recipe>& groups);

// The part by which a short plan may say too much of bytes.
double ShortBytesError(const BlockClasses& classes);

// The request of a plan that does not fit, which then says how much it needs.
PlanRequest WithAnyMemory(PlanRequest request);

// Thread-safe. Costs that groups share are measured once.
class Ladder {
 public:
  // Requires a spec that outlives it.
  Ladder(const SearchSpec& spec, std::vector<GroupToSearch> groups);

  size_t size() const { return groups_.size(); }
  const proto::Recipe& group(size_t i) const { return groups_[i].group; }
  bool IsUniform(size_t i) const { return groups_[i].uniform; }
  double bytes_error() const { return ShortBytesError(classes_); }

  // Takes some 100 microseconds. `packing`: what plans like this one need, over what short plans
  // say.
  Finding List(size_t i, double packing);
  // Requires a state below kCompiled.
  Finding Climb(size_t i, const GroupState& state, double packing);

 private:
  // The costs of each kind of blocks, without and with gathers in the backward.
  struct KindCosts;

  const absl::StatusOr<ShortCosts>& Costs(const ShortPlanSpec& spec, int64_t* made);
  absl::StatusOr<std::vector<ClassCounts>> FindSlices(const proto::Recipe& group);
  bool MayRebalance(size_t i) const;
  absl::StatusOr<KindCosts> FindFormulas(size_t i, int64_t* made);
  std::vector<KindCounts> CountFixed(const std::vector<ClassCounts>& slices, int stages) const;
  absl::Status Tell(size_t i, double capacity, Finding* finding);
  absl::Status TellMix(size_t i, const GroupCosts& costs, const std::vector<KindCounts>& fixed,
                       bool gathers, double capacity, Finding* finding,
                       std::vector<KindCounts>* counts) const;
  absl::Status Rebalance(const GroupCosts& costs, bool gathers, double capacity,
                         std::optional<BlockMix>* mix, GroupState* state) const;
  absl::Status CompileCandidate(size_t i, Finding* finding);
  void Tighten(size_t i, double needed, Finding* finding);
  bool TryNext(size_t i, double capacity, Finding* finding);

  const SearchSpec& spec_;
  const proto::Recipe& fixed_;  // by the spec
  const std::vector<GroupToSearch> groups_;
  const ModelShape shape_;
  const BlockClasses classes_;
  const ClassCounts blocks_;                    // of the model
  const std::vector<ModelShape> class_shapes_;  // of models with blocks of one class
  const double capacity_;                       // bytes of a device; 0: no limit

  std::mutex mutex_;
  std::map<std::string, std::shared_future<absl::StatusOr<ShortCosts>>> costs_;  // by ShortPlanKey
  std::map<std::pair<int, int>, std::vector<ClassCounts>> slices_;  // by stages and chunks
};

}  // namespace oneflow
