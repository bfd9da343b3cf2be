#include "oneflow_core/model/balance_stages.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>

namespace oneflow {
namespace {

constexpr double kRounding = 1 + 1e-9;

class Balance {
 public:
  Balance(const BlockCosts& costs, int stages)
      : costs_(costs), blocks_(static_cast<int>(costs.blocks.size())), stages_(stages) {
    CHECK(stages >= 1 && blocks_ >= stages) << blocks_ << " blocks, " << stages << " stages";
  }

  std::vector<int> Run() const { return MostEven(LeastMaximum() * kRounding); }

 private:
  double ExtraCost(int stage) const {
    return (stage == 0 ? costs_.first : 0) + (stage == stages_ - 1 ? costs_.last : 0);
  }

  // Whether each stage, taking all it may from the front, keeps to `most`.
  bool Fits(double most) const {
    int next = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      double cost = ExtraCost(stage);
      const int begin = next, end = blocks_ - (stages_ - 1 - stage);  // a block for each after it
      while (next < end && cost + costs_.blocks[next] <= most) cost += costs_.blocks[next++];
      if (next == begin) return false;
    }
    return next == blocks_;
  }

  double LeastMaximum() const {
    double low = 0, high = costs_.first + costs_.last;
    for (const double block : costs_.blocks) high += block;
    high *= kRounding;
    while (high > low * kRounding) {
      const double middle = (low + high) / 2;
      (Fits(middle) ? high : low) = middle;
    }
    return high;
  }

  // least[s][b]: the least sum of squares of stages s and after, which take blocks b and after.
  std::vector<int> MostEven(double most) const {
    constexpr double kNo = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> least(stages_ + 1, std::vector<double>(blocks_ + 1, kNo));
    std::vector<std::vector<int>> end(stages_, std::vector<int>(blocks_ + 1, 0));
    least[stages_][blocks_] = 0;
    for (int s = stages_ - 1; s >= 0; --s) {
      for (int b = 0; b < blocks_; ++b) {
        double cost = ExtraCost(s);
        for (int e = b + 1; e <= blocks_; ++e) {
          cost += costs_.blocks[e - 1];
          if (cost > most) break;
          const double sum = cost * cost + least[s + 1][e];
          if (sum == kNo || sum > least[s][b] * kRounding) continue;
          least[s][b] = std::min(sum, least[s][b]);
          end[s][b] = e;  // of equal ones the longest
        }
      }
    }
    std::vector<int> stage_of;
    for (int s = 0, b = 0; s < stages_; b = end[s][b], ++s) {
      stage_of.insert(stage_of.end(), end[s][b] - b, s);
    }
    return stage_of;
  }

  const BlockCosts& costs_;
  const int blocks_, stages_;
};

}  // namespace

std::vector<int> BalancedStages(const BlockCosts& costs, int stages) {
  return Balance(costs, stages).Run();
}

}  // namespace oneflow
