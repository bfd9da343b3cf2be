// The machine's own matrix rate: what MFU is measured against.
#pragma once

#include "absl/status/statusor.h"

namespace oneflow {

// FLOP/s of f32 matrix products of size 768 on `threads` kernel threads, the best of a few, in
// about a fifth of a second. Uses the kernel that training uses.
absl::StatusOr<double> MeasureMatrixRate(int threads);

}  // namespace oneflow
