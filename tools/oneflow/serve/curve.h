// Curve: a number of each step, in bounded memory: when it has kMost points, it joins them in
// pairs, and each stands for twice as many steps from then on.
//
//   Curve losses;
//   losses.Add(step, loss);
//   for (const Curve::Point& point : losses.points()) ...
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneflow {

class Curve {
 public:
  static constexpr size_t kMost = 1000;  // even

  // Of the steps of a point: the last one and its value, which may be NaN, and the smallest and
  // largest value that is a number.
  struct Point {
    int64_t step = 0;
    double last = 0, low = 0, high = 0;
  };

  Curve() { points_.reserve(kMost); }

  // In the order of steps. Allocates nothing.
  void Add(int64_t step, double value) {
    const Point added{step, value, value, value};
    if (in_last_ < every_ && !points_.empty()) {
      points_.back() = Join(points_.back(), added);
      ++in_last_;
      return;
    }
    if (points_.size() == kMost) {
      for (size_t i = 0; i < kMost / 2; ++i) {
        points_[i] = Join(points_[2 * i], points_[2 * i + 1]);
      }
      points_.resize(kMost / 2);
      every_ *= 2;
    }
    points_.push_back(added);
    in_last_ = 1;
  }

  // Oldest first. Each stands for every() of the added values, the last one for as many at most.
  const std::vector<Point>& points() const { return points_; }
  int64_t every() const { return every_; }

 private:
  static Point Join(const Point& a, const Point& b) {
    return {b.step, b.last, std::fmin(a.low, b.low), std::fmax(a.high, b.high)};
  }

  std::vector<Point> points_;
  int64_t every_ = 1, in_last_ = 0;
};

}  // namespace oneflow
