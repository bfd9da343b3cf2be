// Tests the path of a step's numbers from the worker that reports them to process 0's listener: in
// order, and without an allocation by the worker.
#include <catch2/catch.hpp>

#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "actor_runtime/device/counted_allocations.h"
#include "training/trainer/processes/report_queue.h"
#include "training/trainer/processes/report_sender.h"

namespace oneflow {
namespace {

TEST_CASE("what is reported is handed on in order, however small the ring is") {
  for (const size_t capacity : {1, 3, 1000}) {
    std::vector<std::pair<int64_t, std::vector<double>>> heard;
    std::set<uint64_t> runs;
    {
      ReportSender sender(
          [&](uint64_t run, int64_t step, std::span<const double> values) {
            runs.insert(run);
            heard.push_back({step, {values.begin(), values.end()}});
          },
          capacity);
      for (int64_t step = 0; step < 500; ++step) {
        const std::vector<double> values(1 + step % 3, static_cast<double>(step));
        sender.Report(7, step, values);
      }
      if (capacity == 3) {
        sender.Flush();
        CHECK(heard.size() == 500);
      }
    }
    CHECK(runs == std::set<uint64_t>{7});
    REQUIRE(heard.size() == 500);
    for (int64_t step = 0; step < 500; ++step) {
      CHECK(heard[step].first == step);
      CHECK(heard[step].second == std::vector<double>(1 + step % 3, static_cast<double>(step)));
    }
  }
}

TEST_CASE("whoever reports allocates nothing") {
  int64_t allocated = -1;
  std::atomic<int64_t> heard{0};
  {
    ReportSender sender([&](uint64_t, int64_t, std::span<const double> values) {
      const std::vector<double> copy(values.begin(), values.end());
      heard += static_cast<int64_t>(copy.size());
    });
    std::thread([&] {
      const std::vector<double> values(ReportSender::kMostValues);
      const int64_t before = ThreadAllocations();
      for (int64_t step = 0; step < 5000; ++step) sender.Report(0, step, values);
      allocated = ThreadAllocations() - before;
    }).join();
  }
  CHECK(heard == 5000 * static_cast<int64_t>(ReportSender::kMostValues));
  CHECK(allocated == 0);
}

TEST_CASE("the queue allocates nothing for reports of the run in progress") {
  ReportQueue queue;
  double sum = 0;
  queue.Take(1, [&](int64_t, std::span<const double> values) { sum += values[0]; });
  const double value = 1;
  const int64_t before = ThreadAllocations();
  for (int64_t step = 0; step < 100; ++step) queue.Deliver(1, step, {&value, 1});
  CHECK(ThreadAllocations() - before == 0);
  CHECK(sum == 100);
}

TEST_CASE("nobody is called for a run that is over") {
  ReportQueue queue;
  const double value = 1;
  {
    int heard = 0;
    queue.Take(1, [&](int64_t, std::span<const double>) { ++heard; });
    queue.Deliver(1, 0, {&value, 1});
    CHECK(heard == 1);
    queue.Leave();
  }
  queue.Deliver(1, 1, {&value, 1});
  queue.Deliver(2, 5, {&value, 1});
  int64_t heard = -1;
  queue.Take(2, [&](int64_t step, std::span<const double>) { heard = step; });
  CHECK(heard == 5);
}

TEST_CASE("reports of a later run wait for it, those of an earlier one are dropped") {
  ReportQueue queue;
  std::vector<int64_t> heard;
  const auto take = [&](int64_t step, std::span<const double>) { heard.push_back(step); };
  const double value = 1;
  queue.Deliver(2, 20, {&value, 1});
  queue.Deliver(3, 30, {&value, 1});
  CHECK(heard.empty());
  queue.Take(2, take);
  CHECK(heard == std::vector<int64_t>{20});
  queue.Deliver(1, 10, {&value, 1});
  queue.Deliver(3, 31, {&value, 1});
  CHECK(heard == std::vector<int64_t>{20});
  queue.Take(3, take);
  CHECK(heard == std::vector<int64_t>{20, 30, 31});
  CHECK(queue.Await(2).ok());
}

}  // namespace
}  // namespace oneflow
