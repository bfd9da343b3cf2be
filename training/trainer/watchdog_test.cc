#include "training/trainer/watchdog.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("a stall is reported once, after stall_seconds without a firing of any worker") {
  StallDetector detector(10);
  CHECK_FALSE(detector.Look(100, {}));  // no run
  CHECK_FALSE(detector.Look(101, {0, 0}));
  CHECK_FALSE(detector.Look(105, {3, 0}));
  CHECK_FALSE(detector.Look(114, {3, 0}));
  CHECK(detector.Look(115, {3, 0}));
  CHECK(detector.Idle(0) == 10);
  CHECK(detector.Idle(1) == 14);
  CHECK_FALSE(detector.Look(200, {3, 0}));  // reported already
  CHECK_FALSE(detector.Look(201, {3, 1}));
  CHECK_FALSE(detector.Look(210, {3, 1}));
  CHECK(detector.Look(211, {3, 1}));
}

TEST_CASE("the time between two runs is no stall") {
  StallDetector detector(10);
  CHECK_FALSE(detector.Look(0, {5}));
  CHECK_FALSE(detector.Look(9, {}));
  CHECK_FALSE(detector.Look(30, {}));
  CHECK_FALSE(detector.Look(31, {5}));
  CHECK_FALSE(detector.Look(40, {5}));
  CHECK(detector.Look(41, {5}));
}

TEST_CASE("what was no stall may become one after as long again") {
  StallDetector detector(10);
  CHECK_FALSE(detector.Look(0, {5}));
  CHECK(detector.Look(10, {5}));
  detector.Forgive();
  CHECK_FALSE(detector.Look(19, {5}));
  CHECK(detector.Look(20, {5}));
  CHECK(detector.Idle(0) == 20);
}

TEST_CASE("0 seconds: nothing is a stall") {
  StallDetector detector(0);
  CHECK_FALSE(detector.Look(0, {5}));
  CHECK_FALSE(detector.Look(1e6, {5}));
}

TEST_CASE("the report names each worker, how long it is idle, and what its streams wait for") {
  StallDetector detector(0);
  detector.Look(1, {7, 2});
  detector.Look(3.5, {7, 3});
  CHECK(
      ReportText({{"rank 0", 7, {"compute: actor b at rank 0, firing 7, waits"}}, {"host", 3, {}}},
                 detector) ==
      "  rank 0, 7 firings, the last begun 2.5 s ago\n"
      "    compute: actor b at rank 0, firing 7, waits\n"
      "  host, 3 firings, the last begun 0.0 s ago\n");
  CHECK(ReportText({}, detector) == "  no program runs\n");
}

}  // namespace
}  // namespace oneflow
