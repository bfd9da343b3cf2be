// The bandwidth of memory, as all kernel threads of a device together see it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace oneflow {

// Bytes of an array that no cache holds.
inline constexpr int64_t kBeyondCaches = int64_t{1} << 28;

struct MemoryRate {
  double copy = 0;  // bytes/s, of what is read and what is written together
  double read = 0;  // bytes/s
};

// On arrays of `bytes` bytes, which should be several times the last cache; about `budget` seconds.
absl::StatusOr<MemoryRate> MeasureMemory(int threads, int64_t bytes, double budget);

}  // namespace oneflow
