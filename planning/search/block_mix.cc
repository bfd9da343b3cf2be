#include "planning/search/block_mix.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Looks at all counts that add up to a number of blocks: those of the last policies first, because
// the cheapest policy has what is left.
class CountsSearch {
 public:
  CountsSearch(const GroupCosts& costs, int stage, int blocks, double capacity)
      : costs_(costs), stage_(stage), capacity_(capacity), counts_(costs.policies(), 0) {
    for (int p = 0; p < costs.policies(); ++p) {
      PolicyCounts all(costs.policies(), 0);
      all[p] = blocks;
      each_.push_back(costs.Seconds(stage, all) / blocks);
    }
    falls_ = costs.policies() > 1 && each_[0] < each_[1] && HoldsLess(blocks);
    Visit(each_.size() - 1, blocks, 0);
  }

  const std::optional<PolicyCounts>& best() const { return best_; }

 private:
  // True if a block holds less with the second policy than with the first, at any time, also with
  // its part of what the stage holds beside its blocks.
  bool HoldsLess(int blocks) const {
    for (size_t at = 0; at < costs_.HeldBytes(stage_, 0).size(); ++at) {
      const double first = costs_.HeldBytes(stage_, 0)[at].At(blocks);
      if (costs_.HeldBytes(stage_, 1)[at].At(blocks) > first) return false;
      for (int c = 0; c * costs_.stages() + stage_ < std::ssize(costs_.slices()); ++c) {
        if (costs_.HeldByBlock(stage_, c, 1, at) > costs_.HeldByBlock(stage_, c, 0, at)) {
          return false;
        }
      }
    }
    return true;
  }

  // The counts of the first two policies, where each block more with the second holds less and
  // takes longer: the fewest that fit.
  void VisitFalling(int left, double seconds) {
    const auto set = [&](int second) {
      counts_[0] = left - second;
      counts_[1] = second;
      return seconds + second * each_[1] + (left - second) * each_[0];
    };
    if (const double none = set(0); best_ && none > seconds_) return;
    Take(set(0));
    const auto fits = [&](int second) {
      set(second);
      return costs_.Bytes(stage_, counts_) <= capacity_;
    };
    // Bytes that come and go depend on which policies there are: they are the same but at the ends.
    int found = left;
    if (left > 1 && fits(left - 1)) {
      int low = 0, high = left - 1;  // the second fits; the first was looked at
      while (high - low > 1) {
        const int middle = (low + high) / 2;
        (fits(middle) ? high : low) = middle;
      }
      found = high;
    } else if (left == 0 || !fits(left)) {
      return;
    }
    const double all = set(found);
    if (!best_ || all <= seconds_) Take(all);
  }

  void Visit(size_t policy, int left, double seconds) {
    if (policy == 1 && falls_ && capacity_ > 0) return VisitFalling(left, seconds);
    for (int n = policy == 0 ? left : 0; n <= left; ++n) {
      counts_[policy] = n;
      const double more = seconds + n * each_[policy];
      if (policy > 0) {
        Visit(policy - 1, left - n, more);
      } else if (!best_ || more <= seconds_) {
        Take(more);
      }
    }
  }

  void Take(double seconds) {
    const double bytes = costs_.Bytes(stage_, counts_);
    if (capacity_ > 0 && bytes > capacity_) return;
    if (best_ && seconds == seconds_ && bytes >= bytes_) return;
    best_ = counts_;
    seconds_ = seconds;
    bytes_ = bytes;
  }

  const GroupCosts& costs_;
  const int stage_;
  const double capacity_;
  std::vector<double> each_;  // seconds of a block, by policy
  bool falls_ = false;        // HoldsLess, and the second takes longer
  PolicyCounts counts_;
  std::optional<PolicyCounts> best_;
  double seconds_ = 0, bytes_ = 0;
};

absl::StatusOr<std::optional<BlockMix>> ChooseAlone(const GroupCosts& costs,
                                                    const std::vector<int>& blocks,
                                                    double capacity) {
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

// The most bytes of a stage.
double FindBytes(const GroupCosts& costs, const std::vector<PolicyCounts>& counts) {
  double most = 0;
  for (int s = 0; s < costs.stages(); ++s) most = std::max(most, costs.Bytes(s, counts[s]));
  return most;
}

// Orders depend on the counts, and the bytes of counts on the orders: they are chosen in turn, from
// these orders on, and the best of those that fit together is taken.
absl::Status ChooseInTurn(GroupCosts costs, const std::vector<int>& blocks, double capacity,
                          std::optional<BlockMix>* best) {
  constexpr int kTurns = 4;
  for (int i = 0; i < kTurns; ++i) {
    ASSIGN_OR_RETURN(std::optional<BlockMix> mix, ChooseAlone(costs, blocks, capacity));
    if (!mix) return absl::OkStatus();
    costs = costs.FittedTo(mix->counts);
    mix->bytes = FindBytes(costs, mix->counts);
    if (capacity > 0 && mix->bytes > capacity) continue;
    if (!*best || mix->step_seconds < (*best)->step_seconds) *best = std::move(mix);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<PolicyCounts> ChooseCounts(const GroupCosts& costs, int stage, int blocks,
                                         double capacity) {
  if (blocks > 0) return CountsSearch(costs, stage, blocks, capacity).best();
  const PolicyCounts none(costs.policies(), 0);
  const bool fits = capacity <= 0 || costs.Bytes(stage, none) <= capacity;
  return fits ? std::optional(none) : std::nullopt;
}

absl::StatusOr<std::optional<BlockMix>> ChooseMix(const GroupCosts& costs,
                                                  const std::vector<int>& blocks, double capacity) {
  if (!costs.fits_orders()) return ChooseAlone(costs, blocks, capacity);
  std::optional<BlockMix> best;
  RETURN_IF_ERROR(ChooseInTurn(costs, blocks, capacity, &best));
  std::vector<PolicyCounts> last;  // all blocks with the last policy
  for (const int n : blocks) {
    last.emplace_back(costs.policies(), 0);
    last.back().back() = n;
  }
  RETURN_IF_ERROR(ChooseInTurn(costs.FittedTo(last), blocks, capacity, &best));
  return best;
}

std::optional<std::vector<int>> BalanceBlocks(const GroupCosts& costs, int blocks,
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

proto::Recompute MakeRecompute(const std::vector<PolicyCounts>& counts,
                               const std::vector<int>& slices, bool gathers) {
  const auto stages = static_cast<int>(counts.size());
  const int chunks = static_cast<int>(slices.size()) / stages;
  std::vector<std::vector<int>> by_policy(counts[0].size(), std::vector<int>(slices.size(), 0));
  for (int s = 0; s < stages; ++s) {
    std::vector<int> rooms;
    rooms.reserve(chunks);
    for (int c = 0; c < chunks; ++c) rooms.push_back(slices[c * stages + s]);
    const std::vector<PolicyCounts> parts = SplitOverChunks(counts[s], rooms);
    for (int c = 0; c < chunks; ++c) {
      for (size_t p = 0; p < by_policy.size(); ++p) by_policy[p][c * stages + s] = parts[c][p];
    }
  }
  proto::Recompute recompute;
  recompute.set_gather(gathers);
  for (size_t p = counts[0].size(); p-- > 1;) {
    const std::vector<int>& n = by_policy[p];
    if (std::all_of(n.begin(), n.end(), [](int x) { return x == 0; })) continue;
    const bool all = n == slices,
               alike = std::adjacent_find(n.begin(), n.end(), std::not_equal_to<>()) == n.end();
    proto::Recompute::Term& term = *recompute.add_term();
    term.set_policy(std::string(kPolicies[p]));
    if (!all) term.mutable_counts()->Assign(n.begin(), alike ? n.begin() + 1 : n.end());
  }
  return recompute;
}

}  // namespace oneflow
