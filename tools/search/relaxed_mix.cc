#include "tools/search/relaxed_mix.h"

#include <algorithm>
#include <limits>

namespace oneflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What a stage and each of its blocks cost with each policy.
class Stage {
 public:
  Stage(const FamilyCosts& costs, int stage, double capacity)
      : capacity_(capacity > 0 ? capacity : kNever),
        times_(costs.HeldBytes(stage, 0).size(), Time{kNever, {}}) {
    for (int p = 0; p < costs.policies(); ++p) {
      PolicyCounts one(costs.policies(), 0), two = one;
      one[p] = 1;
      two[p] = 2;
      const double seconds = costs.Seconds(stage, one);
      seconds_.push_back(costs.Seconds(stage, two) - seconds);
      fixed_seconds_ = std::min(fixed_seconds_, seconds - seconds_.back());
      for (size_t at = 0; at < times_.size(); ++at) {
        const Linear& held = costs.HeldBytes(stage, p)[at];
        times_[at].fixed = std::min(times_[at].fixed, held.fixed);
        times_[at].blocks.push_back(held.block);
      }
    }
    for (size_t at = 0; at < times_.size(); ++at) {
      times_[at].fixed += costs.LeastOther(stage)[at];
    }
  }

  // kNever where `blocks` do not fit.
  double Seconds(double blocks) const {
    double most = 0;
    for (const Time& time : times_) most = std::max(most, SecondsAt(time, blocks));
    return most;
  }

  // The most blocks that take at most `seconds`.
  double MostBlocks(double seconds, double most) const {
    double low = 0, high = most;
    if (Seconds(low) > seconds) return 0;
    if (Seconds(high) <= seconds) return high;
    for (int i = 0; i < 30; ++i) {
      const double middle = (low + high) / 2;
      (Seconds(middle) <= seconds ? low : high) = middle;
    }
    return high;
  }

 private:
  // Of a step: bytes that a stage holds then, and those of a block, by policy.
  struct Time {
    double fixed = 0;
    std::vector<double> blocks;
  };

  double SecondsAt(const Time& time, double blocks) const {
    if (time.fixed > capacity_) return kNever;
    if (blocks <= 0) return std::max(0.0, fixed_seconds_);
    const double allowed = (capacity_ - time.fixed) / blocks;  // of a block, on average
    const std::vector<double>& bytes = time.blocks;
    double best = kNever;
    for (size_t a = 0; a < bytes.size(); ++a) {
      if (bytes[a] > allowed) continue;
      best = std::min(best, seconds_[a]);
      for (size_t b = 0; b < bytes.size(); ++b) {
        // A part of the blocks with a, the others with b, which together need just what is allowed.
        if (bytes[b] <= allowed) continue;
        const double part = (allowed - bytes[a]) / (bytes[b] - bytes[a]);
        best = std::min(best, seconds_[a] + part * (seconds_[b] - seconds_[a]));
      }
    }
    return fixed_seconds_ + blocks * best;
  }

  double capacity_;
  std::vector<double> seconds_;  // of a block, by policy
  double fixed_seconds_ = kNever;
  std::vector<Time> times_;
};

}  // namespace

std::optional<double> RelaxedSeconds(const FamilyCosts& costs, const std::vector<int>& blocks,
                                     double capacity) {
  double longest = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    longest = std::max(longest, Stage(costs, s, capacity).Seconds(blocks[s]));
  }
  return longest < kNever ? std::optional(longest) : std::nullopt;
}

std::optional<double> RelaxedBalance(const FamilyCosts& costs, int blocks, double capacity) {
  std::vector<Stage> stages;
  for (int s = 0; s < costs.stages(); ++s) stages.emplace_back(costs, s, capacity);
  const auto fits = [&](double seconds) {
    double sum = 0;
    for (const Stage& stage : stages) sum += stage.MostBlocks(seconds, blocks);
    return sum >= blocks;
  };
  double high = 1e-9;
  for (int i = 0; !fits(high); ++i) {
    if (i == 80) return std::nullopt;
    high *= 2;
  }
  double low = high / 2;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace oneflow
