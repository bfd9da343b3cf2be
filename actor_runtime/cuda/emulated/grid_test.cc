#include "actor_runtime/cuda/emulated/grid.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// ThreadSanitizer calls these, if it is linked in: the test fails for reports that it does not ask
// for.
int races_reported = 0;
extern "C" {
__attribute__((weak)) void __tsan_acquire(void* address);
void __tsan_on_report(void*) { ++races_reported; }
}
namespace __tsan {
bool OnFinalize(bool) { return races_reported > 0; }
}  // namespace __tsan

namespace oneflow::emulated {
namespace {

// The races that ThreadSanitizer has reported since the last call.
int RacesReported() { return std::exchange(races_reported, 0); }

std::vector<KernelOrder> Orders() {
  std::vector<KernelOrder> orders = {{KernelOrder::kAscending}, {KernelOrder::kDescending}};
  for (uint64_t seed = 0; seed < 8; ++seed) orders.push_back({KernelOrder::kDrawn, seed});
  return orders;
}

// Runs a grid in which nothing is wrong.
void Run(const Grid& grid, const KernelOrder& order, const std::function<void()>& thread) {
  REQUIRE(RunGrid("kernel", grid, thread, order) == "");
}

std::string Failure(const Grid& grid, const std::function<void()>& thread) {
  return RunGrid("kernel", grid, thread, {});
}

TEST_CASE("Orders") {
  Draw draw{3};
  std::vector<int> order(5);
  Arrange(KernelOrder::kAscending, draw, order);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
  Arrange(KernelOrder::kDescending, draw, order);
  CHECK(order == std::vector<int>{4, 3, 2, 1, 0});
  std::set<std::vector<int>> drawn;
  for (int i = 0; i < 2000; ++i) {
    Arrange(KernelOrder::kDrawn, draw, order);
    drawn.insert(order);
  }
  CHECK(drawn.size() == 120);
}

TEST_CASE("Every thread of a grid runs once, in the order that is asked for") {
  using Index = std::tuple<unsigned, unsigned, unsigned, unsigned, unsigned, unsigned>;
  const Grid grid{dim3(3, 2, 2), dim3(8, 4, 2)};
  std::vector<std::vector<Index>> runs;
  for (const KernelOrder& order : Orders()) {
    std::vector<Index>& run = runs.emplace_back(12 * 64);
    int size = 0;
    Run(grid, order, [&] {
      run[atomicAdd(&size, 1)] = {blockIdx.z,  blockIdx.y,  blockIdx.x,
                                  threadIdx.z, threadIdx.y, threadIdx.x};
    });
  }
  std::vector<Index> all;
  for (unsigned b = 0; b < 12; ++b) {
    for (unsigned t = 0; t < 64; ++t) {
      all.emplace_back(b / 6, b / 3 % 2, b % 3, t / 32, t / 8 % 4, t % 8);
    }
  }
  CHECK(runs[0] == all);
  for (std::vector<Index>& run : runs) {
    if (&run != &runs[0]) CHECK(run != all);
    std::sort(run.begin(), run.end());
    CHECK(run == all);
  }
  CHECK(RacesReported() == 0);
}

// The sum of 0 .. 255 by a tree in shared memory; without its barriers if `planted`.
int TreeSum(const KernelOrder& order, bool planted) {
  int sum = 0;
  Run({1, 256, 256 * sizeof(int)}, order, [&] {
    int* parts = static_cast<int*>(DynamicSharedMemory());
    const int i = static_cast<int>(threadIdx.x);
    parts[i] = i;
    for (int half = 128; half > 0; half /= 2) {
      if (!planted) __syncthreads();
      if (i < half) parts[i] += parts[i + half];
    }
    if (i == 0) sum = parts[0];
  });
  return sum;
}

TEST_CASE("A missing __syncthreads shows in the results, and ThreadSanitizer reports it") {
  std::set<int> right, wrong;
  for (const KernelOrder& order : Orders()) right.insert(TreeSum(order, false));
  CHECK(right == std::set<int>{255 * 128});
  CHECK(RacesReported() == 0);
  for (const KernelOrder& order : Orders()) wrong.insert(TreeSum(order, true));
  CHECK(wrong.size() > 1);
  const bool watched = __tsan_acquire != nullptr;
  CHECK((RacesReported() > 0) == watched);
}

TEST_CASE("A barrier that is there is noted, and can be taken out") {
  const KernelOrder descending{KernelOrder::kDescending};
  NoteBarriers();
  CHECK(TreeSum(descending, false) == 255 * 128);
  const std::vector<Barrier> noted = TakeNotedBarriers();
  REQUIRE(noted.size() == 1);
  CHECK(noted[0].kernel == "kernel");
  CHECK(noted[0].file.ends_with("grid_test.cc"));
  RemoveBarrier(&noted[0]);
  CHECK(TreeSum(descending, false) == TreeSum(descending, true));
  Barrier elsewhere = noted[0];
  ++elsewhere.line;
  RemoveBarrier(&elsewhere);
  CHECK(TreeSum(descending, false) == 255 * 128);
  RemoveBarrier(&noted[0]);
  RemoveBarrier(nullptr);
  CHECK(TreeSum(descending, false) == 255 * 128);
  RacesReported();
}

// Lane i + 1 of a warp reads what lane i wrote, with a barrier of the warp between them or a
// shuffle, which is none.
int HandOver(const KernelOrder& order, bool barrier) {
  int right = 0;
  Run({1, 64}, order, [&] {
    __shared__ unsigned given[64];
    const unsigned i = threadIdx.x, next = i / 32 * 32 + (i + 1) % 32;
    given[i] = i;
    if (barrier) __syncwarp();
    if (!barrier) __shfl_sync(0xffffffffu, i, 0);
    const bool good = given[next] == next;
    const unsigned votes = __ballot_sync(0xffffffffu, good);
    if (i % 32 == 0) atomicAdd(&right, __popc(votes));
  });
  return right;
}

TEST_CASE("A shuffle instead of __syncwarp is a race that ThreadSanitizer alone sees") {
  RacesReported();
  for (const KernelOrder& order : Orders()) CHECK(HandOver(order, true) == 64);
  CHECK(RacesReported() == 0);
  for (const KernelOrder& order : Orders()) CHECK(HandOver(order, false) == 64);
  CHECK((RacesReported() > 0) == (__tsan_acquire != nullptr));
}

TEST_CASE("Lanes exchange values of up to 64 bytes, however far ahead some of them are") {
  struct Wide {
    uint64_t words[8];
  };
  for (const KernelOrder& order : Orders()) {
    std::vector<int> wrong(64);
    Run({1, 64}, order, [&] {
      const int i = static_cast<int>(threadIdx.x), lane = i % 32;
      for (uint64_t round = 0; round < 5; ++round) {
        Wide mine{}, all[kLanes];
        mine.words[7] = i * 100 + round;
        AllLanes(mine, all);
        for (int l = 0; l < kLanes; ++l) {
          wrong[i] += all[l].words[7] != (i - lane + l) * 100 + round;
        }
        wrong[i] += __shfl_xor_sync(0xffffffffu, i, 5) != (i ^ 5);
        wrong[i] += __shfl_down_sync(0xffffffffu, i, 3, 8) != (i % 8 < 5 ? i + 3 : i);
        wrong[i] += __shfl_up_sync(0xffffffffu, i, 3, 8) != (i % 8 < 3 ? i : i - 3);
        wrong[i] += __any_sync(0xffffffffu, lane == 31) != 1;
        wrong[i] += __all_sync(0xffffffffu, lane != 31) != 0;
      }
    });
    CHECK(wrong == std::vector<int>(64));
  }
}

TEST_CASE("Shared memory holds nothing of the block before") {
  std::vector<float> fixed(3), dynamic(3);
  Run({3, 32, 16}, {}, [&] {
    __shared__ float value;
    auto* more = static_cast<float*>(DynamicSharedMemory());
    if (threadIdx.x == 0) {
      fixed[blockIdx.x] = value;
      dynamic[blockIdx.x] = more[3];
    }
    __syncthreads();
    if (threadIdx.x == 5) value = more[3] = 1;
  });
#ifndef __SANITIZE_ADDRESS__
  for (float x : fixed) CHECK(std::isnan(x));
#endif
  for (float x : dynamic) CHECK(std::isnan(x));
}

TEST_CASE("A kernel's mistake is reported, and ends the grid") {
  using Catch::Matchers::Contains;
  int after = 0;
  CHECK_THAT(Failure({2, 64},
                     [&] {
                       if (threadIdx.x != 40) __syncthreads();
                       if (threadIdx.x != 40) ++after;
                     }),
             Contains("kernel: thread (0,0,0) of block (0,0,0) waits for ever in __syncthreads: "
                      "1 of 64 threads have ended, 63 are in __syncthreads"));
  CHECK(after == 0);
  CHECK_THAT(Failure({1, 32},
                     [] {
                       if (threadIdx.x != 7) __syncwarp();
                     }),
             Contains("waits for ever in __syncwarp"));
  CHECK_THAT(Failure({1, 32}, [] { __shfl_sync(0xffffu, 1, 0); }),
             Contains("__shfl_sync with a mask that is not full"));
  CHECK_THAT(Failure({1, 32},
                     [] {
                       if (threadIdx.x < 5) __syncwarp();
                       __shfl_sync(0xffffffffu, 1, 0);
                     }),
             Contains("thread (5,0,0) of block (0,0,0): is in __shfl_sync of 4 bytes, another lane "
                      "of its warp in __syncwarp of 0 bytes"));
  // The next grid is none the worse for it.
  CHECK(TreeSum({}, false) == 255 * 128);
  CHECK(RacesReported() == 0);
}

}  // namespace
}  // namespace oneflow::emulated
