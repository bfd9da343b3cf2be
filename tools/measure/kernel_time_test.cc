#include "tools/measure/kernel_time.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace oneflow {
namespace {

double Rate() {
  const absl::StatusOr<double> rate = MeasureMatrixRate(1);
  INFO(rate.status());
  REQUIRE(rate.ok());
  return *rate;
}

TEST_CASE("the machine's matrix rate is the same when others use its cores") {
  const double alone = Rate();
  std::atomic<bool> done = false;
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < 6 * std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!done.load()) {
      }
    });
  }
  const double beside = Rate();
  done.store(true);
  // By the clock on the wall it is about a seventh.
  CHECK(beside > 0.4 * alone);
  CHECK(beside < 2.5 * alone);
}

}  // namespace
}  // namespace oneflow
