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
      : capacity_(capacity > 0 ? capacity : kNever) {
    for (int p = 0; p < costs.policies(); ++p) {
      PolicyCounts one(costs.policies(), 0), two = one;
      one[p] = 1;
      two[p] = 2;
      const double seconds = costs.Seconds(stage, one), bytes = costs.Bytes(stage, one);
      const Policy policy{costs.Seconds(stage, two) - seconds, costs.Bytes(stage, two) - bytes};
      fixed_seconds_ = std::min(fixed_seconds_, seconds - policy.seconds);
      fixed_bytes_ = std::min(fixed_bytes_, bytes - policy.bytes);
      policies_.push_back(policy);
    }
  }

  // kNever where `blocks` do not fit.
  double Seconds(double blocks) const {
    if (fixed_bytes_ > capacity_) return kNever;
    if (blocks <= 0) return std::max(0.0, fixed_seconds_);
    const double allowed = (capacity_ - fixed_bytes_) / blocks;  // of a block, on average
    double best = kNever;
    for (const Policy& a : policies_) {
      if (a.bytes <= allowed) best = std::min(best, a.seconds);
      for (const Policy& b : policies_) {
        // A part of the blocks with a, the others with b, which together need just what is allowed.
        if (!(a.bytes <= allowed && b.bytes > allowed)) continue;
        const double part = (allowed - a.bytes) / (b.bytes - a.bytes);
        best = std::min(best, a.seconds + part * (b.seconds - a.seconds));
      }
    }
    return fixed_seconds_ + blocks * best;
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
  struct Policy {
    double seconds = 0, bytes = 0;  // of a block
  };
  double capacity_;
  std::vector<Policy> policies_;
  double fixed_seconds_ = kNever, fixed_bytes_ = kNever;
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
