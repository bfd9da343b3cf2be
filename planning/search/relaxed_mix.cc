#include "planning/search/relaxed_mix.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace oneflow {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The costs of a stage and each of its blocks with each policy. Of a stage with n blocks a chunk
// has its part, whichever policies they have.
class Stage {
 public:
  Stage(const GroupCosts& costs, int stage, double capacity)
      : capacity_(capacity > 0 ? capacity : kInfinite) {
    for (int p = 0; p < costs.policies(); ++p) {
      PolicyCounts one(costs.policies(), 0), two = one;
      one[p] = 1;
      two[p] = 2;
      const double seconds = costs.Seconds(stage, one);
      seconds_.push_back(costs.Seconds(stage, two) - seconds);
      fixed_seconds_ = std::min(fixed_seconds_, seconds - seconds_.back());
    }
    std::vector<double> parts;  // of the blocks, by chunk
    for (size_t i = stage; i < costs.slices().size(); i += costs.stages()) {
      parts.push_back(costs.slices()[i]);
    }
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    for (double& part : parts) part = sum > 0 ? part / sum : 1.0 / std::ssize(parts);
    for (size_t at = 0; at < costs.HeldBytes(stage, 0).size(); ++at) {
      times_.push_back(MakeTime(costs, stage, at, parts));
    }
  }

  // kInfinite where `blocks` do not fit.
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
  // Another policy for all blocks of a chunk: of each block of the stage, fewer bytes for more
  // seconds.
  struct Change {
    double bytes = 0, seconds = 0;
  };
  // A time of a step.
  struct Time {
    double fixed = kInfinite;     // bytes that a stage holds then beside its blocks
    double bytes = 0;             // of a block with the policy that takes least seconds
    std::vector<Change> changes;  // those that cost least seconds for a byte first
  };

  Time MakeTime(const GroupCosts& costs, int stage, size_t at,
                const std::vector<double>& parts) const {
    Time time;
    for (int p = 0; p < costs.policies(); ++p) {
      time.fixed = std::min(time.fixed, costs.HeldBytes(stage, p)[at].fixed);
    }
    time.fixed += costs.LeastOther(stage)[at];
    for (size_t c = 0; c < parts.size(); ++c) {
      std::vector<double> bytes;  // of a block, by policy
      bytes.reserve(costs.policies());
      for (int p = 0; p < costs.policies(); ++p) {
        bytes.push_back(costs.HeldByBlock(stage, static_cast<int>(c), p, at));
      }
      time.bytes += parts[c] * AddChanges(bytes, parts[c], &time.changes);
    }
    std::sort(time.changes.begin(), time.changes.end(), [](const Change& a, const Change& b) {
      return a.seconds * b.bytes < b.seconds * a.bytes;
    });
    return time;
  }

  // From policy to policy along the lower convex hull of seconds by bytes; returns the bytes of the
  // first one. A chunk's changes get dearer along it, so in the order of their cost they follow
  // each other.
  double AddChanges(const std::vector<double>& bytes, double part,
                    std::vector<Change>* changes) const {
    size_t now = 0;
    for (size_t p = 1; p < bytes.size(); ++p) {
      const bool equal = seconds_[p] == seconds_[now];
      if (seconds_[p] < seconds_[now] || (equal && bytes[p] < bytes[now])) now = p;
    }
    const double first = bytes[now];
    while (true) {
      std::optional<size_t> next;
      const auto cost = [&](size_t p) {
        return (seconds_[p] - seconds_[now]) / (bytes[now] - bytes[p]);
      };
      for (size_t p = 0; p < bytes.size(); ++p) {
        if (bytes[p] < bytes[now] && (!next || cost(p) < cost(*next))) next = p;
      }
      if (!next) return first;
      changes->push_back(
          {part * (bytes[now] - bytes[*next]), part * (seconds_[*next] - seconds_[now])});
      now = *next;
    }
  }

  double SecondsAt(const Time& time, double blocks) const {
    if (time.fixed > capacity_) return kInfinite;
    if (blocks <= 0) return std::max(0.0, fixed_seconds_);
    const double least = *std::min_element(seconds_.begin(), seconds_.end());
    double seconds = fixed_seconds_ + blocks * least;
    double beyond = time.fixed + blocks * time.bytes - capacity_;  // bytes
    for (const Change& change : time.changes) {
      if (beyond <= 0) break;
      const double part = std::min(1.0, beyond / (blocks * change.bytes));
      seconds += part * blocks * change.seconds;
      beyond -= part * blocks * change.bytes;
    }
    return beyond > 1e-9 * capacity_ ? kInfinite : seconds;
  }

  double capacity_;
  std::vector<double> seconds_;  // of a block, by policy
  double fixed_seconds_ = kInfinite;
  std::vector<Time> times_;
};

}  // namespace

std::optional<double> RelaxedSeconds(const GroupCosts& costs, const std::vector<int>& blocks,
                                     double capacity) {
  double longest = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    longest = std::max(longest, Stage(costs, s, capacity).Seconds(blocks[s]));
  }
  return longest < kInfinite ? std::optional(longest) : std::nullopt;
}

std::optional<double> RelaxedBalance(const GroupCosts& costs, int blocks, double capacity) {
  std::vector<Stage> stages;
  stages.reserve(costs.stages());
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
