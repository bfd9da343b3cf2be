#include "tools/oneflow/serve/curve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

namespace oneflow {
namespace {

constexpr int64_t kMost = Curve::kMost;

TEST_CASE("a curve keeps each step until it is full, and then joins them in pairs") {
  Curve curve;
  for (int64_t step = 0; step < kMost; ++step) curve.Add(step, static_cast<double>(step % 7));
  REQUIRE(curve.points().size() == Curve::kMost);
  CHECK(curve.every() == 1);
  CHECK(curve.points()[12].step == 12);
  CHECK(curve.points()[12].last == 5);
  CHECK(curve.points()[12].low == 5);

  curve.Add(kMost, 100);
  CHECK(curve.every() == 2);
  REQUIRE(curve.points().size() == Curve::kMost / 2 + 1);
  CHECK(curve.points()[3].step == 7);  // of steps 6 and 7
  CHECK(curve.points()[3].last == 0);
  CHECK(curve.points()[3].low == 0);
  CHECK(curve.points()[3].high == 6);
  CHECK(curve.points().back().step == kMost);
  curve.Add(kMost + 1, 3);
  CHECK(curve.points().size() == Curve::kMost / 2 + 1);
  CHECK(curve.points().back().step == kMost + 1);
  CHECK(curve.points().back().last == 3);
  CHECK(curve.points().back().high == 100);
}

TEST_CASE("a curve of any length has no more points, in order, and loses no extreme") {
  Curve curve;
  constexpr int64_t kSteps = 123457;
  size_t most = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    curve.Add(step, step == 77777  ? 9
                    : step == 1234 ? std::numeric_limits<double>::quiet_NaN()
                                   : 1);
    most = std::max(most, curve.points().size());
  }
  CHECK(most == Curve::kMost);
  CHECK(curve.every() == 128);
  int64_t before = -1;
  double high = 0;
  for (const Curve::Point& point : curve.points()) {
    CHECK(point.step - before == std::min(curve.every(), kSteps - 1 - before));
    before = point.step;
    high = std::max(high, point.high);
    CHECK(point.low == 1);
  }
  CHECK(before == kSteps - 1);
  CHECK(high == 9);
}

}  // namespace
}  // namespace oneflow
