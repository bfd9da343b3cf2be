#include "planning/search/block_mix.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/block_classes.h"
#include "planning/search/stage_loads.h"

namespace oneflow {
namespace {

// Finds the best counts of one class among all that there are. Of several classes, each first
// leaves out mixes of its policies that another one matches or beats in all that counts, and what
// is left is joined class by class.
class CountsSearch {
 public:
  CountsSearch(const GroupCosts& costs, int stage, const ClassCounts& blocks, double capacity)
      : costs_(costs), blocks_(blocks), capacity_(capacity), loads_(costs, stage, blocks) {
    const int all = std::accumulate(blocks.begin(), blocks.end(), 0);
    KindCounts alike(costs.kinds(), 0);
    for (int kind = 0; kind < costs.kinds(); ++kind) {
      alike[kind] = all;
      each_.push_back(costs.Seconds(stage, alike) / std::max(1, all));
      alike[kind] = 0;
    }
    for (int c = 0; c < costs.classes(); ++c) {
      if (blocks[c] > 0) order_.push_back(c);
    }
    // The largest is last: all others are joined before it.
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return blocks[a] < blocks[b]; });
    const Mix none{0, loads_.base(), KindCounts(costs.kinds(), 0)};
    if (order_.empty()) {
      Take(none);
    } else if (order_.size() == 1) {
      ChooseAmong(order_[0], none);
    } else {
      std::vector<Mix> mixes = {none};
      for (size_t i = 0; i < order_.size(); ++i) mixes = Join(mixes, i);
    }
  }

  std::optional<KindCounts> best() const {
    return best_ ? std::optional(best_->counts) : std::nullopt;
  }

 private:
  struct Mix {
    double seconds = 0;
    StageLoads::Load load;
    KindCounts counts;
  };

  // Calls visit(counts, seconds) with all counts of a class that may be best: those of the last
  // policies first, because the cheapest policy has what is left.
  template <typename Visit>
  void VisitCounts(int block_class, std::vector<int>* counts, int policy, int left, double seconds,
                   const Visit& visit) const {
    const double* each = &each_[block_class * costs_.policies()];
    const double least = *std::min_element(each, each + policy + 1);
    if (best_ && seconds + left * least > (1 + kRounding) * best_->seconds) return;
    for (int n = policy == 0 ? left : 0; n <= left; ++n) {
      (*counts)[policy] = n;
      const double more = seconds + n * each[policy];
      if (policy > 0) {
        VisitCounts(block_class, counts, policy - 1, left - n, more, visit);
      } else {
        visit(*counts, more);
      }
    }
  }
  template <typename Visit>
  void VisitCounts(int block_class, const Visit& visit) const {
    std::vector<int> counts(costs_.policies(), 0);
    VisitCounts(block_class, &counts, costs_.policies() - 1, blocks_[block_class], 0, visit);
  }

  void SetCounts(int block_class, const std::vector<int>& counts, KindCounts* all) const {
    std::copy(counts.begin(), counts.end(), all->begin() + block_class * costs_.policies());
  }

  void ChooseAmong(int block_class, Mix mix) {
    const StageLoads::Load base = mix.load;
    VisitCounts(block_class, [&](const std::vector<int>& counts, double seconds) {
      if (best_ && seconds > best_->seconds) return;
      mix.seconds = seconds;
      mix.load = base;
      loads_.Add(block_class, counts, &mix.load);
      SetCounts(block_class, counts, &mix.counts);
      Take(mix);
    });
  }

  // The mixes of one class.
  std::vector<Mix> List(int block_class) const {
    StageLoads::Load others = loads_.base();
    for (const int c : order_) {
      if (c != block_class) AddLeast(c, &others);
    }
    std::vector<Mix> mixes;
    VisitCounts(block_class, [&](const std::vector<int>& counts, double seconds) {
      Mix mix{seconds, loads_.Nothing(), KindCounts(costs_.kinds(), 0)};
      loads_.Add(block_class, counts, &mix.load);
      if (!MayFit(mix.load, others)) return;
      SetCounts(block_class, counts, &mix.counts);
      mixes.push_back(std::move(mix));
    });
    return KeepBest(std::move(mixes));
  }

  // Adds the least that a class holds at each time, with some policy on all of its blocks.
  void AddLeast(int block_class, StageLoads::Load* load) const {
    std::vector<double> least;
    for (int p = 0; p < costs_.policies(); ++p) {
      std::vector<int> counts(costs_.policies(), 0);
      counts[p] = blocks_[block_class];
      StageLoads::Load alike = loads_.Nothing();
      loads_.Add(block_class, counts, &alike);
      if (least.empty()) least = alike.held;
      for (size_t t = 0; t < least.size(); ++t) least[t] = std::min(least[t], alike.held[t]);
    }
    for (size_t t = 0; t < least.size(); ++t) load->held[t] += least[t];
  }

  bool MayFit(StageLoads::Load load, const StageLoads::Load& others) const {
    StageLoads::Add(others, &load);
    return capacity_ <= 0 || loads_.Bytes(load) <= capacity_;
  }

  // Each of these with each mix of class order_[i]. With the last class they are all blocks, and
  // the best of them is taken.
  std::vector<Mix> Join(const std::vector<Mix>& mixes, size_t i) {
    StageLoads::Load rest = loads_.Nothing();
    for (size_t j = i + 1; j < order_.size(); ++j) AddLeast(order_[j], &rest);
    std::vector<Mix> joined;
    const std::vector<Mix> added = List(order_[i]);
    for (const Mix& mix : mixes) {
      for (const Mix& more : added) {
        const double seconds = mix.seconds + more.seconds;
        if (best_ && seconds > best_->seconds) break;
        Mix both{seconds, mix.load, mix.counts};
        StageLoads::Add(more.load, &both.load);
        if (!MayFit(both.load, rest)) continue;
        for (size_t k = 0; k < both.counts.size(); ++k) both.counts[k] += more.counts[k];
        if (i + 1 == order_.size()) {
          Take(both);
        } else {
          joined.push_back(std::move(both));
        }
      }
    }
    joined = KeepBest(std::move(joined));
    if (joined.size() <= kMostJoined || i == 0) return joined;
    for (size_t k = 0; k < kMostJoined; ++k) {
      joined[k] = joined[k * (joined.size() - 1) / (kMostJoined - 1)];
    }
    joined.resize(kMostJoined);
    return joined;
  }

  static std::vector<Mix> KeepBest(std::vector<Mix> mixes) {
    std::stable_sort(mixes.begin(), mixes.end(),
                     [](const Mix& a, const Mix& b) { return a.seconds < b.seconds; });
    const auto at_most = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
    };
    std::vector<Mix> kept;
    for (Mix& mix : mixes) {
      const bool beaten = std::any_of(kept.rbegin(), kept.rend(), [&](const Mix& other) {
        return at_most(other.load.held, mix.load.held) &&
               at_most(other.load.moving, mix.load.moving);
      });
      if (!beaten) kept.push_back(std::move(mix));
    }
    return kept;
  }

  // Requires that the mix takes no longer than the best one.
  void Take(const Mix& mix) {
    const double bytes = loads_.Bytes(mix.load);
    if (capacity_ > 0 && bytes > capacity_) return;
    if (best_ && mix.seconds == best_->seconds && bytes >= bytes_) return;
    best_ = mix;
    bytes_ = bytes;
  }

  static constexpr double kRounding = 1e-12;
  static constexpr size_t kMostJoined = 400;

  const GroupCosts& costs_;
  const ClassCounts& blocks_;
  const double capacity_;
  const StageLoads loads_;
  std::vector<double> each_;  // seconds of a block, by kind
  std::vector<int> order_;    // of classes that have blocks
  std::optional<Mix> best_;
  double bytes_ = 0;
};

// Divides the blocks over the stages.
class Balance {
 public:
  Balance(const GroupCosts& costs, const std::vector<int>& classes, double capacity)
      : costs_(costs),
        capacity_(capacity),
        stages_(costs.stages()),
        blocks_(static_cast<int>(classes.size())),
        before_(1, ClassCounts(costs.classes(), 0)),
        known_(stages_) {
    for (const int c : classes) ++before_.emplace_back(before_.back())[c];
  }

  std::optional<std::vector<int>> Run() {
    std::vector<int> begins;
    for (int s = 0; s <= stages_; ++s) begins.push_back(blocks_ * s / stages_);
    double longest = FindLongest(begins);
    if (longest == kNever && !FillFromEnd(kNever, &begins)) return std::nullopt;
    std::vector<int> best;
    do {
      longest = FindLongest(begins);
      best = begins;
    } while (FillFromEnd(longest, &begins));
    // Later stages have all with which they take less than the longest, the first ones what is
    // left.
    for (int s = 0; s + 1 < stages_; ++s) {
      int end = begins[s] + 1;
      while (end < begins[s + 1] && Seconds(s, begins[s], end + 1) <= longest) ++end;
      begins[s + 1] = end;
    }
    if (FindLongest(begins) <= longest) best = begins;
    std::vector<int> result;
    for (int s = 0; s < stages_; ++s) result.push_back(best[s + 1] - best[s]);
    return result;
  }

 private:
  // Each stage, from the last one on, takes as many blocks as it can in less than `longest`
  // seconds, one at least. False where these are not all.
  bool FillFromEnd(double longest, std::vector<int>* begins) {
    bool less = true;
    int end = blocks_;
    for (int s = stages_ - 1; s >= 0; --s) {
      const int like_before = (*begins)[s + 1] - (*begins)[s];
      (*begins)[s + 1] = end;
      int begin = s == 0 ? 0 : std::clamp(end - like_before, s, end - 1);
      while (s > 0 && begin + 1 < end && Seconds(s, begin, end) >= longest) ++begin;
      while (begin > s && Seconds(s, begin - 1, end) < longest) --begin;
      less = less && Seconds(s, begin, end) < longest;
      end = begin;
    }
    return less;
  }

  double FindLongest(const std::vector<int>& begins) {
    double longest = 0;
    for (int s = 0; s < stages_; ++s) {
      longest = std::max(longest, Seconds(s, begins[s], begins[s + 1]));
    }
    return longest;
  }

  // Of a stage with the blocks from `begin` up to `end`.
  double Seconds(int stage, int begin, int end) {
    ClassCounts blocks = before_[end];
    for (size_t c = 0; c < blocks.size(); ++c) blocks[c] -= before_[begin][c];
    const auto [known, is_new] = known_[stage].try_emplace(blocks, kNever);
    if (!is_new) return known->second;
    const std::optional<KindCounts> counts = ChooseCounts(costs_, stage, blocks, capacity_);
    if (counts) known->second = costs_.Seconds(stage, *counts);
    return known->second;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const GroupCosts& costs_;
  const double capacity_;
  const int stages_, blocks_;
  std::vector<ClassCounts> before_;                   // by block: of those before it
  std::vector<std::map<ClassCounts, double>> known_;  // by stage: seconds
};

absl::StatusOr<std::optional<BlockMix>> ChooseAlone(const GroupCosts& costs,
                                                    const std::vector<ClassCounts>& blocks,
                                                    double capacity) {
  BlockMix mix;
  for (int s = 0; s < costs.stages(); ++s) {
    std::optional<KindCounts> counts = ChooseCounts(costs, s, blocks[s], capacity);
    if (!counts) return std::nullopt;
    mix.bytes = std::max(mix.bytes, costs.Bytes(s, *counts));
    mix.counts.push_back(*std::move(counts));
  }
  ASSIGN_OR_RETURN(mix.step_seconds, costs.StepSeconds(mix.counts));
  return mix;
}

// Orders depend on the counts, and the bytes of counts on the orders: they are chosen in turn, from
// these orders on, and the best of those that fit together is taken.
absl::Status ChooseInTurn(GroupCosts costs, const std::vector<ClassCounts>& blocks, double capacity,
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

std::optional<KindCounts> ChooseCounts(const GroupCosts& costs, int stage,
                                       const ClassCounts& blocks, double capacity) {
  return CountsSearch(costs, stage, blocks, capacity).best();
}

absl::StatusOr<std::optional<BlockMix>> ChooseMix(const GroupCosts& costs,
                                                  const std::vector<ClassCounts>& blocks,
                                                  double capacity) {
  if (!costs.fits_orders()) return ChooseAlone(costs, blocks, capacity);
  std::optional<BlockMix> best;
  RETURN_IF_ERROR(ChooseInTurn(costs, blocks, capacity, &best));
  std::vector<KindCounts> last;  // all blocks with the last policy
  for (const ClassCounts& n : blocks) last.push_back(costs.WithPolicy(n, costs.policies() - 1));
  RETURN_IF_ERROR(ChooseInTurn(costs.FittedTo(last), blocks, capacity, &best));
  return best;
}

absl::StatusOr<std::optional<BlockMix>> TakeMix(const GroupCosts& costs,
                                                const std::vector<KindCounts>& counts,
                                                double capacity) {
  const GroupCosts fitted = costs.fits_orders() ? costs.FittedTo(counts) : costs;
  BlockMix mix{.counts = counts, .bytes = FindBytes(fitted, counts)};
  if (capacity > 0 && mix.bytes > capacity) return std::nullopt;
  ASSIGN_OR_RETURN(mix.step_seconds, fitted.StepSeconds(counts));
  return mix;
}

double FindBytes(const GroupCosts& costs, const std::vector<KindCounts>& counts) {
  double most = 0;
  for (int s = 0; s < costs.stages(); ++s) most = std::max(most, costs.Bytes(s, counts[s]));
  return most;
}

std::optional<std::vector<int>> BalanceBlocks(const GroupCosts& costs,
                                              const std::vector<int>& classes, double capacity) {
  return Balance(costs, classes, capacity).Run();
}

proto::Recompute MakeRecompute(const std::vector<KindCounts>& counts,
                               const std::vector<ClassCounts>& slices, bool gathers) {
  const auto stages = static_cast<int>(counts.size());
  const auto chunks = static_cast<int>(slices.size()) / stages;
  const auto classes = static_cast<int>(slices[0].size());
  const int policies = static_cast<int>(counts[0].size()) / classes;
  proto::Recompute recompute;
  recompute.set_gather(gathers);
  for (int c = 0; c < classes; ++c) {
    std::vector<int> blocks;  // of the class, by slice
    for (const ClassCounts& slice : slices) blocks.push_back(slice[c]);
    std::vector<std::vector<int>> by_policy(policies, std::vector<int>(slices.size(), 0));
    for (int s = 0; s < stages; ++s) {
      std::vector<int> rooms;
      for (int j = 0; j < chunks; ++j) rooms.push_back(blocks[j * stages + s]);
      const auto first = counts[s].begin() + c * policies;
      const auto parts = SplitOverChunks({first, first + policies}, rooms);
      for (int j = 0; j < chunks; ++j) {
        for (int p = 0; p < policies; ++p) by_policy[p][j * stages + s] = parts[j][p];
      }
    }
    for (int p = policies - 1; p > 0; --p) {
      const std::vector<int>& n = by_policy[p];
      if (std::all_of(n.begin(), n.end(), [](int x) { return x == 0; })) continue;
      const bool all = n == blocks,
                 alike = std::adjacent_find(n.begin(), n.end(), std::not_equal_to<>()) == n.end();
      proto::Recompute::Term& term = *recompute.add_term();
      term.set_policy(std::string(kPolicies[p]));
      if (classes > 1) term.set_blocks(BlockClassName(c));
      if (!all) term.mutable_counts()->Assign(n.begin(), alike ? n.begin() + 1 : n.end());
    }
  }
  const auto& terms = recompute.term();
  const bool all_alike =
      terms.size() == classes && std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
        return term.counts().empty() && term.policy() == terms[0].policy();
      });
  if (!all_alike) return recompute;
  recompute.mutable_term()->DeleteSubrange(1, classes - 1);
  recompute.mutable_term(0)->clear_blocks();
  return recompute;
}

}  // namespace oneflow
