// The rungs of the search: what is known of a plan group (candidate.h), and how more is found out.
//
//   kListed    nothing but its degrees: bounds by what one device would compute
//   kOne       the mixes of recompute that may fit a device, by the same costs (least_costs.h)
//   kBounded   the same, by the costs of the devices that a part of the batch is split over
//   kPlain     seconds and bytes by a short plan of the group without recompute (short_plan.h),
//              and by what policies add to the least costs (add_policy.h)
//   kShort     the same by short plans of each policy, with the mix that takes least (block_mix.h)
//   kDrafted   seconds and least bytes of the plan with that mix, drafted (DraftPlan) and simulated
//   kCompiled  the same plan compiled, proved and simulated
//
//   Ladder ladder(spec, groups);
//   GroupState state = ladder.Start(i);
//   Finding finding = ladder.Climb(i, state);   // one rung up
#pragma once

#include <array>
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
#include "planning/search/block_mix.h"
#include "planning/search/result.h"
#include "planning/search/short_plan.h"
#include "planning/search/space.h"
#include "planning/search/stage_costs.h"
#include "proto/plan.pb.h"

namespace oneflow {

enum class Rung { kListed, kOne, kBounded, kPlain, kShort, kDrafted, kCompiled };

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct GroupState {
  Rung rung = Rung::kListed;
  double bound = 0;        // no plan of the group takes less
  double likely = kNever;  // seconds, as far as they are known: what is tried first
  // From kPlain on.
  proto::Recipe candidate;         // what is compiled next, or was
  double estimate = kNever;        // its seconds, by short plans or its draft
  double least_estimate = kNever;  // those of the mix that bounds all
  double capacity = 0;             // for which the candidate was chosen
  // The least seconds of a mix, as far as it is known, that keeps what the forward gathers of
  // activations, and of one that gathers it again in the backward (--recompute=...,gather).
  std::array<double, 2> least_of_gathers = {0, 0};
  int tries = 0;                   // mixes that were looked at after the first
  double least_bytes = 0;          // of a device, by the draft
  double by_short_plans = kNever;  // seconds of the candidate, by short plans
  // The best plan of the group that was compiled: its seconds, also by short plans, and the
  // capacity for which its mix was chosen.
  double compiled = kNever, compiled_by_short_plans = kNever, fits = 0;
  double too_much = kNever;  // the least capacity for which a mix was chosen that did not fit
  // From others: what a plan needs over its least bytes, since packing leaves gaps.
  double packing = 1;        // at least
  double usual_packing = 0;  // as a rule; 0: not known
};

// The findings of a climb.
struct Finding {
  GroupState state;
  absl::Status refusal;                  // not OK: the group cannot be compiled
  std::optional<NearestMiss> too_large;  // no mix fits
  bool did_not_fit = false;              // the candidate; state has another
  int64_t short_plans = 0;               // that were made
  double packing = 0;                    // of the compiled candidate; 0: there is none
  std::optional<FoundPlan> found;
  std::optional<proto::Plan> plan;
  double seconds = 0;  // that the climb took, noted by the search
};

// Thread-safe. Costs that groups share are measured once.
class Ladder {
 public:
  // Requires a spec that outlives it.
  Ladder(const SearchSpec& spec, std::vector<proto::Recipe> groups);

  size_t size() const { return groups_.size(); }
  const proto::Recipe& group(size_t i) const { return groups_[i]; }
  GroupState Start(size_t i, int64_t* short_plans);
  // Requires a state below kCompiled.
  Finding Climb(size_t i, const GroupState& state);

 private:
  absl::StatusOr<ShortCosts> Costs(const ShortPlanSpec& spec, int64_t* made);
  absl::StatusOr<std::vector<int>> FindSlices(const proto::Recipe& group);
  bool MayRebalance(const proto::Recipe& group) const;
  absl::StatusOr<std::optional<double>> LongestStage(const GroupCosts& costs,
                                                     const proto::Recipe& group,
                                                     const std::vector<int>& blocks,
                                                     double capacity) const;
  absl::Status Bound(size_t i, bool of_one, Finding* finding);
  absl::Status TellFixed(size_t i, const std::vector<int>& slices, Finding* finding);
  absl::Status TellPlain(size_t i, Finding* finding);
  absl::Status Tell(size_t i, double capacity, Finding* finding);
  absl::Status TellMix(size_t i, const GroupCosts& costs, bool gathers, double capacity,
                       Finding* finding) const;
  absl::Status Rebalance(const GroupCosts& costs, bool gathers, double capacity, double most,
                         std::optional<BlockMix>* mix, GroupState* state) const;
  bool Fits(const GroupState& state) const;
  absl::Status Draft(size_t i, Finding* finding);
  absl::Status CompileCandidate(size_t i, Finding* finding);
  void Tighten(size_t i, double needed, Finding* finding);
  bool TryNext(size_t i, double capacity, Finding* finding);

  const SearchSpec& spec_;
  const proto::Recipe& fixed_;  // by the spec
  const std::vector<proto::Recipe> groups_;
  const int blocks_;       // of the model
  const double capacity_;  // bytes of a device; 0: no limit

  std::mutex mutex_;
  std::map<std::string, std::shared_future<absl::StatusOr<ShortCosts>>> costs_;  // by ShortPlanKey
  std::map<std::pair<int, int>, std::vector<int>> slices_;  // by stages and chunks
};

}  // namespace oneflow
