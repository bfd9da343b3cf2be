#include "training/data/epoch_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

namespace oneflow {
namespace {

std::vector<int64_t> AllOf(const EpochOrder& order, int64_t records) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < records; ++i) all.push_back(order(i));
  return all;
}

bool IsPermutation(std::vector<int64_t> order) {
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < std::ssize(order); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

TEST_CASE("epoch order: each record once, for any number of records") {
  for (int64_t records = 1; records <= 300; ++records) {
    for (const uint64_t seed : {1u, 77u}) {
      CHECK(IsPermutation(AllOf(EpochOrder(seed, records % 3, records), records)));
    }
  }
  for (const int64_t records : {1000, 1023, 1024, 1025, 4097, 65537, 100000}) {
    CHECK(IsPermutation(AllOf(EpochOrder(3, 1, records), records)));
  }
}

TEST_CASE("epoch order: a function of seed and epoch") {
  const auto order = AllOf(EpochOrder(5, 2, 1000), 1000);
  CHECK(order == AllOf(EpochOrder(5, 2, 1000), 1000));
  CHECK(order != AllOf(EpochOrder(5, 3, 1000), 1000));
  CHECK(order != AllOf(EpochOrder(6, 2, 1000), 1000));
  // Recorded: checkpoints of runs rely on it.
  CHECK(AllOf(EpochOrder(1, 0, 10), 10) == std::vector<int64_t>{0, 1, 7, 4, 2, 5, 3, 6, 9, 8});
  CHECK(EpochOrder(1, 0, int64_t{1} << 40)(0) == 224026700796);
}

// The chance that a sum of squares as large as this comes of equally likely cells, as a number of
// standard deviations (Wilson and Hilferty).
double Deviations(double chi_square, double freedom) {
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);
}

TEST_CASE("epoch order: positions in one epoch say nothing of those in the next") {
  constexpr int kCells = 16;
  for (const int64_t records : {100, 1000, 4096, 5000}) {
    // Cells of (place in one epoch, place in the next), and of neighbours in one.
    std::vector<double> between(kCells * kCells), within(kCells * kCells);
    const int epochs = 80000 / static_cast<int>(records);
    const auto cell = [&](int64_t position) { return position * kCells / records; };
    double pairs = 0, neighbours = 0;
    std::vector<int64_t> before(records), now(records);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const std::vector<int64_t> order = AllOf(EpochOrder(9, epoch, records), records);
      for (int64_t i = 0; i < records; ++i) now[order[i]] = i;
      for (int64_t r = 0; epoch > 0 && r < records; ++r) {
        between[cell(before[r]) * kCells + cell(now[r])] += 1;
        ++pairs;
      }
      for (int64_t i = 0; i + 1 < records; i += 2) {
        within[cell(order[i]) * kCells + cell(order[i + 1])] += 1;
        ++neighbours;
      }
      before = now;
    }
    std::vector<double> size(kCells);
    for (int64_t i = 0; i < records; ++i) size[cell(i)] += 1;
    double of_between = 0, of_within = 0;
    for (int a = 0; a < kCells; ++a) {
      for (int b = 0; b < kCells; ++b) {
        const double all = static_cast<double>(records), square = size[a] * size[b];
        const double next = pairs * square / (all * all);
        const double beside = neighbours * (square - (a == b ? size[a] : 0)) / (all * (all - 1));
        of_between += std::pow(between[a * kCells + b] - next, 2) / next;
        of_within += std::pow(within[a * kCells + b] - beside, 2) / beside;
      }
    }
    CAPTURE(records, of_between, of_within);
    // Rows and columns have given sums within each pair of epochs.
    CHECK(std::abs(Deviations(of_between, (kCells - 1.) * (kCells - 1))) < 4);
    CHECK(std::abs(Deviations(of_within, kCells * kCells - 1.)) < 4);
  }
}

TEST_CASE("epoch order: few records come in all orders, about equally often") {
  for (const int64_t records : {2, 3, 4}) {
    std::map<std::vector<int64_t>, double> orders;
    constexpr int kEpochs = 4000;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      orders[AllOf(EpochOrder(4, epoch, records), records)] += 1;
    }
    const double all = std::tgamma(records + 1.0);
    REQUIRE(static_cast<double>(orders.size()) == all);
    double chi_square = 0;
    for (const auto& [order, count] : orders) {
      chi_square += std::pow(count - kEpochs / all, 2) / (kEpochs / all);
    }
    CAPTURE(records, chi_square);
    CHECK(Deviations(chi_square, all - 1) < 4);
  }
}

}  // namespace
}  // namespace oneflow
