#include "tools/search/block_mix.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_recompute.h"

namespace oneflow {
namespace {

// Calls take(counts) for all counts of `policies` policies that add up to `blocks`.
template <typename Take>
void ForCounts(int policies, int blocks, PolicyCounts* counts, size_t policy, const Take& take) {
  if (static_cast<int>(policy) + 1 == policies) {
    (*counts)[policy] = blocks;
    take(*counts);
    return;
  }
  for (int n = blocks; n >= 0; --n) {
    (*counts)[policy] = n;
    ForCounts(policies, blocks - n, counts, policy + 1, take);
  }
}

}  // namespace

std::optional<PolicyCounts> ChooseCounts(const FamilyCosts& costs, int stage, int blocks,
                                         double capacity) {
  std::optional<PolicyCounts> best;
  double seconds = std::numeric_limits<double>::infinity(), bytes = seconds;
  PolicyCounts counts(costs.policies(), 0);
  ForCounts(costs.policies(), blocks, &counts, 0, [&](const PolicyCounts& tried) {
    const double takes = costs.Seconds(stage, tried);
    if (takes > seconds) return;
    const double needs = costs.Bytes(stage, tried);
    if (capacity > 0 && needs > capacity) return;
    if (takes == seconds && needs >= bytes) return;
    best = tried;
    seconds = takes;
    bytes = needs;
  });
  return best;
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
