#include "oneflow_core/model/balance_stages.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

namespace oneflow {
namespace {

constexpr double kNoDivision = std::numeric_limits<double>::infinity();
constexpr double kAsLong = 1 + 1e-9;  // sums of the same blocks in another order

class Balancer {
 public:
  Balancer(const BlockCosts& costs, int stages, int chunks)
      : costs_(costs), stages_(stages), slices_(stages * chunks), until_{0} {
    for (const double cost : costs.blocks) until_.push_back(until_.back() + cost);
  }

  bool alike() const { return alike_; }

  // The costs of slices, and of stages, of these numbers of blocks.
  std::vector<double> SliceCosts(const std::vector<int>& counts) const {
    std::vector<double> costs;
    int block = 0;
    for (int i = 0; i < slices_; ++i) {
      costs.push_back(CostOfSlice(i, block, block + counts[i]));
      block += counts[i];
    }
    return costs;
  }
  std::vector<double> StageSums(const std::vector<int>& counts) const {
    const std::vector<double> slices = SliceCosts(counts);
    std::vector<double> sums(stages_, 0);
    for (int i = 0; i < slices_; ++i) sums[i % stages_] += slices[i];
    return sums;
  }
  double Longest(const std::vector<int>& counts) const {
    const std::vector<double> sums = StageSums(counts);
    return *std::max_element(sums.begin(), sums.end());
  }

  // Gives block after block to the stage that costs least. Where blocks are equal, no other
  // division has a shorter longest stage, or a smaller sum of squares.
  std::vector<int> Fill() const {
    std::vector<int> counts(slices_, 1);
    for (int b = slices_; b < blocks(); ++b) {
      const std::vector<double> by_slice = SliceCosts(counts), by_stage = StageSums(counts);
      const auto rank = [&](int i) {
        return std::tuple(by_stage[i % stages_], by_slice[i], i == slices_ - 1, -i);
      };
      int least = 0;
      for (int i = 1; i < slices_; ++i) {
        if (rank(i) < rank(least)) least = i;
      }
      ++counts[least];
    }
    return counts;
  }

  // Of the divisions with the shortest longest slice, one of the least sum of squares.
  std::vector<int> DivideSlices() const {
    const auto longer = [](double before, double slice) { return std::max(before, slice); };
    const double longest = FindCounts(longer).first * kAsLong;
    const auto squares = [&](double before, double slice) {
      return slice <= longest ? before + slice * slice : kNoDivision;
    };
    return FindCounts(squares).second;
  }

  // Moves blocks from slice to slice as long as that makes the longest stage shorter, or leaves it
  // and makes stages more even. Blocks of slices between the two move on.
  void MoveBlocks(std::vector<int>* counts) const {
    auto least = Unevenness(*counts);
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = 0; from < slices_; ++from) {
        for (int to = 0; to < slices_ && (*counts)[from] > 1; ++to) {
          --(*counts)[from], ++(*counts)[to];
          const auto now = Unevenness(*counts);
          if (now.first * kAsLong < least.first ||
              (now.first <= least.first && now.second * kAsLong < least.second)) {
            least = now, moved = true;
          } else {
            ++(*counts)[from], --(*counts)[to];
          }
        }
      }
    }
  }

 private:
  int blocks() const { return static_cast<int>(costs_.blocks.size()); }

  double CostOfSlice(int slice, int begin, int end) const {
    // As many equal blocks cost the same to the last bit.
    const double blocks = alike_ ? (end - begin) * costs_.blocks[0] : until_[end] - until_[begin];
    return blocks + (slice == 0 ? costs_.first : 0) + (slice == slices_ - 1 ? costs_.last : 0);
  }

  // The longest stage, and the sum of the squares of stages.
  std::pair<double, double> Unevenness(const std::vector<int>& counts) const {
    std::pair<double, double> result;
    for (const double sum : StageSums(counts)) {
      result.first = std::max(result.first, sum);
      result.second += sum * sum;
    }
    return result;
  }

  // The least `combine` of slice after slice over all divisions, and one that has it.
  std::pair<double, std::vector<int>> FindCounts(
      const std::function<double(double, double)>& combine) const {
    const int n = blocks();
    std::vector<double> least(n + 1, kNoDivision);  // of the slices so far, by their blocks
    least[0] = 0;
    std::vector<std::vector<int>> begins;  // by slice and its end
    for (int i = 0; i < slices_; ++i) {
      std::vector<double> next(n + 1, kNoDivision);
      std::vector<int>& begin = begins.emplace_back(n + 1, 0);
      for (int end = i + 1; end <= n; ++end) {
        for (int b = i; b < end; ++b) {
          if (least[b] == kNoDivision) continue;
          const double sum = combine(least[b], CostOfSlice(i, b, end));
          if (sum < next[end]) next[end] = sum, begin[end] = b;
        }
      }
      least = std::move(next);
    }
    std::vector<int> counts(slices_);
    for (int i = slices_ - 1, end = n; i >= 0; --i) {
      counts[i] = end - begins[i][end];
      end = begins[i][end];
    }
    return {least[n], counts};
  }

  const BlockCosts& costs_;
  const int stages_, slices_;
  std::vector<double> until_;  // of the blocks before each, and of all
  const bool alike_ =
      std::equal(costs_.blocks.begin() + 1, costs_.blocks.end(), costs_.blocks.begin());
};

}  // namespace

std::vector<int> BalancedSlices(const BlockCosts& costs, int stages, int chunks) {
  const size_t n = costs.blocks.size();
  CHECK(stages >= 1 && chunks >= 1 && static_cast<int>(n) >= stages * chunks)
      << n << " blocks, " << stages << " stages of " << chunks;
  const BlockCosts ones{.blocks = std::vector<double>(n, 1)};
  const Balancer balancer(costs, stages, chunks);
  const std::vector<int> equal = Balancer(ones, stages, chunks).Fill();
  std::vector<int> best;
  if (balancer.alike()) {
    best = balancer.Fill();
  } else {
    best = balancer.DivideSlices();
    if (chunks > 1) {
      std::vector<int> moved = equal;
      balancer.MoveBlocks(&moved);
      balancer.MoveBlocks(&best);
      if (balancer.Longest(moved) < balancer.Longest(best)) best = std::move(moved);
    }
  }
  const double most = balancer.Longest(equal) * (1 - kWorthMoving);
  return balancer.Longest(best) < most ? best : equal;
}

}  // namespace oneflow
