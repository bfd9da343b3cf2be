#include "actor_runtime/device/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("every task runs exactly once, on a thread of the pool") {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    for (int tasks : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(tasks, 0);
      std::atomic<bool> bad_thread{false};
      pool.ParallelFor(tasks, [&](int task, int thread) {
        ++runs[task];
        if (thread < 0 || thread >= threads) bad_thread = true;
      });
      REQUIRE(std::accumulate(runs.begin(), runs.end(), 0) == tasks);
      for (int r : runs) REQUIRE(r == 1);
      REQUIRE_FALSE(bad_thread);
    }
  }
}

TEST_CASE("a thread begins with its own share, and takes what others have left") {
  ThreadPool pool(2);
  for (int loop = 0; loop < 100; ++loop) {
    std::atomic<int> first_of_worker{-1};
    std::vector<int> thread_of(10, -1);
    pool.ParallelFor(10, [&](int task, int thread) {
      thread_of[task] = thread;
      int none = -1;
      if (thread == 1) {
        first_of_worker.compare_exchange_strong(none, task);
        first_of_worker.notify_one();
      } else if (task == 0) {
        first_of_worker.wait(
            none);  // the caller stays in its first task until the other thread is there
      }
    });
    REQUIRE(first_of_worker == 5);
    REQUIRE(thread_of[0] == 0);
    REQUIRE(std::count(thread_of.begin(), thread_of.end(), -1) == 0);
  }
}

TEST_CASE("loops follow each other without losing what the last one wrote") {
  ThreadPool pool(3);
  std::vector<int64_t> values(64, 0);
  for (int loop = 0; loop < 5000; ++loop) {
    pool.ParallelFor(64, [&](int task, int) { values[task] += values[task] == loop; });
  }
  for (int64_t v : values) REQUIRE(v == 5000);
}

TEST_CASE("two threads of one loop never share a thread number at the same time") {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> overlap{false};
  for (int loop = 0; loop < 200; ++loop) {
    pool.ParallelFor(16, [&](int, int thread) {
      if (inside[thread].fetch_add(1) != 0) overlap = true;
      inside[thread].fetch_sub(1);
    });
  }
  REQUIRE_FALSE(overlap);
}

}  // namespace
}  // namespace oneflow
