#include "planning/measure/memory_rate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exec/arena.h"
#include "oneflow_core/base/status.h"
#include "planning/measure/repeat.h"

namespace oneflow {
namespace {

constexpr int64_t kPiece = 1 << 16;  // words of a task
constexpr int64_t kLanes = 16;       // words of two lines of a cache

}  // namespace

absl::StatusOr<MemoryRate> MeasureMemory(int threads, int64_t bytes, double budget) {
  const int64_t pieces = std::max<int64_t>(1, bytes / (kPiece * 8));
  // Memory of devices: in its pages.
  ASSIGN_OR_RETURN(const Arena source, Arena::Create(pieces * kPiece * 8));
  ASSIGN_OR_RETURN(const Arena target, Arena::Create(pieces * kPiece * 8));
  auto* from = reinterpret_cast<uint64_t*>(source.data());
  auto* to = reinterpret_cast<uint64_t*>(target.data());
  std::fill_n(from, pieces * kPiece, 1);
  std::fill_n(to, pieces * kPiece, 0);
  std::vector<uint64_t> sums(pieces);
  ThreadPool pool(threads);
  const auto copy = [&](int piece, int) {
    std::memcpy(to + piece * kPiece, from + piece * kPiece, kPiece * 8);
  };
  const auto read = [&](int piece, int) {
    const uint64_t* data = from + piece * kPiece;
    // One chain of sums would be slower than some memories.
    uint64_t sum[kLanes] = {};
    for (int64_t i = 0; i < kPiece; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += data[i + lane];
    }
    sums[piece] = std::accumulate(sum, sum + kLanes, uint64_t{0});
  };
  const auto seconds = [&](auto& task) {
    return Repeat(budget / 2, [&] {
      pool.ParallelFor(static_cast<int>(pieces), task);
      return absl::OkStatus();
    });
  };
  ASSIGN_OR_RETURN(const std::vector<double> copying, seconds(copy));
  ASSIGN_OR_RETURN(const std::vector<double> reading, seconds(read));
  const double size = static_cast<double>(pieces) * kPiece * 8;
  return MemoryRate{2 * size / Median(copying), size / Median(reading)};
}

}  // namespace oneflow
