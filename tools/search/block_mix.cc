#include "tools/search/block_mix.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_recompute.h"

namespace oneflow {
namespace {

// Of one policy on a stage with a given number of blocks: what a block with it adds.
struct PolicyCosts {
  double seconds = 0, bytes = 0;
  double other_bytes = 0;  // the stage's, if any block has the policy
};

// Looks at all counts that add up to a number of blocks: those of the last policies first, because
// the cheapest policy has what is left.
class CountsSearch {
 public:
  CountsSearch(const FamilyCosts& costs, int stage, int blocks, double capacity)
      : capacity_(capacity > 0 ? capacity : std::numeric_limits<double>::infinity()),
        counts_(costs.policies(), 0) {
    for (int p = 0; p < costs.policies(); ++p) {
      PolicyCounts all(costs.policies(), 0);
      all[p] = blocks;
      const double other = costs.OtherBytes(stage, p);
      policies_.push_back(
          {costs.Seconds(stage, all) / blocks, (costs.Bytes(stage, all) - other) / blocks, other});
    }
    Visit(policies_.size() - 1, blocks, 0, 0, 0);
  }

  const std::optional<PolicyCounts>& best() const { return best_; }

 private:
  void Visit(size_t policy, int left, double seconds, double bytes, double other) {
    const PolicyCosts& p = policies_[policy];
    if (policy == 0) {
      counts_[0] = left;
      if (left > 0) other = std::max(other, p.other_bytes);
      Take(seconds + left * p.seconds, bytes + left * p.bytes + other);
      return;
    }
    for (int n = 0; n <= left; ++n) {
      counts_[policy] = n;
      Visit(policy - 1, left - n, seconds + n * p.seconds, bytes + n * p.bytes,
            n > 0 ? std::max(other, p.other_bytes) : other);
    }
  }

  void Take(double seconds, double bytes) {
    if (bytes > capacity_) return;
    if (best_ && (seconds > seconds_ || (seconds == seconds_ && bytes >= bytes_))) return;
    best_ = counts_;
    seconds_ = seconds;
    bytes_ = bytes;
  }

  const double capacity_;
  std::vector<PolicyCosts> policies_;
  PolicyCounts counts_;
  std::optional<PolicyCounts> best_;
  double seconds_ = 0, bytes_ = 0;
};

}  // namespace

std::optional<PolicyCounts> ChooseCounts(const FamilyCosts& costs, int stage, int blocks,
                                         double capacity) {
  if (blocks > 0) return CountsSearch(costs, stage, blocks, capacity).best();
  const PolicyCounts none(costs.policies(), 0);
  const bool fits = capacity <= 0 || costs.Bytes(stage, none) <= capacity;
  return fits ? std::optional(none) : std::nullopt;
}

absl::StatusOr<std::optional<BlockMix>> ChooseMix(const FamilyCosts& costs,
                                                  const std::vector<int>& blocks, double capacity) {
  BlockMix mix;
  for (int s = 0; s < costs.stages(); ++s) {
    std::optional<PolicyCounts> counts = ChooseCounts(costs, s, blocks[s], capacity);
    if (!counts) return std::nullopt;
    mix.bytes = std::max(mix.bytes, costs.Bytes(s, *counts));
    mix.counts.push_back(*std::move(counts));
  }
  ASSIGN_OR_RETURN(mix.step_seconds, costs.StepSeconds(mix.counts));
  return mix;
}

std::optional<std::vector<int>> BalanceBlocks(const FamilyCosts& costs, int blocks,
                                              double capacity) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<int> result(costs.stages(), 1);
  std::vector<double> with_more;  // by stage: seconds with one block more
  const auto seconds = [&](int s, int n) {
    const std::optional<PolicyCounts> counts = ChooseCounts(costs, s, n, capacity);
    return counts ? costs.Seconds(s, *counts) : kNever;
  };
  for (int s = 0; s < costs.stages(); ++s) {
    if (seconds(s, 1) == kNever) return std::nullopt;
    with_more.push_back(seconds(s, 2));
  }
  for (int left = blocks - costs.stages(); left > 0; --left) {
    const auto least = std::min_element(with_more.begin(), with_more.end());
    if (*least == kNever) return std::nullopt;
    const int s = static_cast<int>(least - with_more.begin());
    *least = seconds(s, ++result[s] + 1);
  }
  return result;
}

std::string RecomputeWords(const std::vector<PolicyCounts>& counts,
                           const std::vector<int>& slices) {
  const auto stages = static_cast<int>(counts.size());
  const int chunks = static_cast<int>(slices.size()) / stages;
  std::vector<std::vector<int>> by_policy(counts[0].size(), std::vector<int>(slices.size(), 0));
  for (int s = 0; s < stages; ++s) {
    PolicyCounts left = counts[s];
    for (int c = 0; c < chunks; ++c) {
      const int slice = c * stages + s;
      int room = slices[slice];
      for (size_t p = left.size(); p-- > 0;) {
        // The dearest policies first; what is left is none.
        const int part = p == 0 ? room : std::min(room, (left[p] + chunks - c - 1) / (chunks - c));
        by_policy[p][slice] = part;
        left[p] -= part;
        room -= part;
      }
    }
  }
  RecomputePolicy policy;
  for (size_t p = counts[0].size(); p-- > 1;) {
    const std::vector<int>& n = by_policy[p];
    if (std::all_of(n.begin(), n.end(), [](int x) { return x == 0; })) continue;
    const bool all = n == slices,
               alike = std::adjacent_find(n.begin(), n.end(), std::not_equal_to<>()) == n.end();
    RecomputePolicy::Term term{std::string(kPolicies[p]), {}};
    if (!all) term.counts = alike ? std::vector<int>{n[0]} : n;
    policy.terms.push_back(std::move(term));
  }
  return ToString(policy);
}

}  // namespace oneflow
