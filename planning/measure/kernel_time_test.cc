// The clocks of the thread that measures are the test's own, so that nothing here depends on the
// machine's load: what a call takes by each clock is given, and what must come of it is exact.
#include "planning/measure/kernel_time.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <ctime>
#include <utility>
#include <vector>

namespace oneflow {
namespace {

// Seconds of each call, over and over, by one clock. The clock is read before and after each.
class CallClock {
 public:
  explicit CallClock(std::vector<double> seconds) : seconds_(std::move(seconds)) {}

  double Read() {
    // Between two calls much time goes by, which must not count.
    now_ += reads_ % 2 == 0 ? 50 : seconds_[reads_ / 2 % seconds_.size()];
    ++reads_;
    return now_;
  }

 private:
  std::vector<double> seconds_;
  size_t reads_ = 0;
  double now_ = 0;
};

struct Clocks {
  CallClock wall, thread;
};
thread_local Clocks* clocks = nullptr;  // null: the machine's

}  // namespace
}  // namespace oneflow

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  if (oneflow::clocks == nullptr || (id != CLOCK_MONOTONIC && id != CLOCK_THREAD_CPUTIME_ID)) {
    return static_cast<int>(syscall(SYS_clock_gettime, id, time));
  }
  oneflow::Clocks& clocks = *oneflow::clocks;
  const double now = id == CLOCK_MONOTONIC ? clocks.wall.Read() : clocks.thread.Read();
  time->tv_sec = static_cast<time_t>(now);
  time->tv_nsec = std::lround(1e9 * (now - std::floor(now)));
  if (time->tv_nsec == 1'000'000'000) ++time->tv_sec, time->tv_nsec = 0;
  return 0;
}

namespace oneflow {
namespace {

constexpr double kFlops = 2.0 * 768 * 768 * 768;

// With the calling thread's clocks.
template <typename Measure>
auto By(Clocks with, Measure measure) {
  clocks = &with;
  auto measured = measure();
  clocks = nullptr;
  INFO(measured.status());
  REQUIRE(measured.ok());
  return *measured;
}

TEST_CASE("a kernel's time is the median by the wall, and the least of its own thread") {
  // The first call warms up: the wall's clock is not read, its thread's is.
  const TimedOp gelu{"gelu", {{{64, 64}}}, {}};
  const KernelTime time = By({CallClock({0.004, 0.009, 0.002}), CallClock({0.5, 0.003, 0.001})},
                             [&] { return TimeKernel(gelu, 1, 0.012); });
  CHECK(time.seconds == Approx(0.004));
  CHECK(time.of_thread == Approx(0.001));
  CHECK(time.bytes == 2 * 64 * 64 * sizeof(float));
  // While the budget lasts there are more calls than three: two of 1 s more before 2.5 s are over.
  const KernelTime longer = By({CallClock({0.1, 0.2, 0.3, 1, 1}), CallClock({0.1})},
                               [&] { return TimeKernel(gelu, 1, 2.5); });
  CHECK(longer.seconds == Approx(0.3));
}

TEST_CASE("the machine's matrix rate is that of the time that threads run, not of the wall's") {
  // Two rounds of four calls, of which the second has the shortest.
  const Clocks busy{CallClock({0.07}),
                    CallClock({0.009, 0.003, 0.002, 0.004, 0.009, 0.005, 0.0016, 0.004})};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CHECK(By(busy, [&] { return MeasureMatrixRate(1, dtype); }) == Approx(kFlops / 0.0016));
    CHECK(By(busy, [&] { return MeasureMatrixRate(3, dtype); }) == Approx(3 * kFlops / 0.0016));
  }
  // The other way round: the better round is the first.
  const Clocks calm{CallClock({0.07}),
                    CallClock({0.009, 0.003, 0.002, 0.004, 0.009, 0.005, 0.003, 0.004})};
  CHECK(By(calm, [] { return MeasureMatrixRate(2); }) == Approx(2 * kFlops / 0.002));
}

TEST_CASE("by the machine's own clock a product takes the time of a product") {
  const double rate = MeasureMatrixRate(1).value();
  // No core does 10 TFLOP/s in f32; a call that does nothing would seem to do a thousand times
  // that.
  CHECK(rate < 1e13);
  CHECK(rate > 1e7);
}

}  // namespace
}  // namespace oneflow
