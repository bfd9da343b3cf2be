// What any mix of policies on the blocks of a family costs, from short plans of each policy alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "tools/search/candidate.h"
#include "tools/search/played_step.h"
#include "tools/search/short_plan.h"

namespace oneflow {

// Policies of recompute in the order of the time that they cost.
inline constexpr std::string_view kPolicies[] = {"none", "attention", "selective", "full"};

// Of a stage: the number of its blocks that have each policy.
using PolicyCounts = std::vector<int>;

class FamilyCosts {
 public:
  // `costs`: of kPolicies, as many as were measured, one at least. `usual`: blocks of each stage,
  // on which orders whose warm-ups are fitted depend, and so the micro-batches that a stage holds.
  static absl::StatusOr<FamilyCosts> Make(const CompileOptions& given, const PlanFamily& family,
                                          std::vector<ShortCosts> costs,
                                          const std::vector<int>& usual, bool fits_orders = true);

  int stages() const { return static_cast<int>(held_.size()); }
  int policies() const { return static_cast<int>(costs_.size()); }

  // Seconds of a micro-batch on a stage.
  double Seconds(int stage, const PolicyCounts& counts) const;
  // The lower bound of its bytes. It grows with each block's count in proportion, but for the
  // largest OtherBytes of the policies that blocks have.
  double Bytes(int stage, const PolicyCounts& counts) const;
  double OtherBytes(int stage, int policy) const { return At(stage, policy).other_bytes; }
  // Of a whole step; `counts` by stage.
  absl::StatusOr<double> StepSeconds(const std::vector<PolicyCounts>& counts) const;

 private:
  const StageCosts& At(int stage, size_t policy) const;
  template <typename Value>
  double Mean(int stage, const PolicyCounts& counts, Value value) const;
  TaskSeconds Task(int stage, const PolicyCounts& counts) const;

  Schedule schedule_;
  std::vector<ShortCosts> costs_;
  std::vector<Held> held_;  // by stage
  int64_t micro_batches_ = 1;
  bool overlap_ = false;  // of steps
};

}  // namespace oneflow
