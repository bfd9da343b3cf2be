// Loops over rows of costs, with the widest vectors that the processor has. Part of choice_network.
// A cost is at most kForbidden, and a sum of fewer than eight of them does not overflow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/sbp/cost.h"

namespace oneflow {

// Rows that LowerToSums takes.
inline constexpr size_t kMostRows = 4;

// least[i] = min(least[i], sum + rows[0][i] + ... + rows[count - 1][i]). Requires count of at most
// kMostRows; `least` overlaps no row.
void LowerToSums(Cost sum, const Cost* const* rows, size_t count, size_t length, Cost* least);

// sums[i] = AddCosts(a[i], b[i]). `sums` may be `a`.
void AddRows(const Cost* a, const Cost* b, size_t length, Cost* sums);

// The least of the costs; kForbidden if there are none.
Cost FindLeast(const Cost* costs, size_t length);

// Takes `from` off all costs below kForbidden; returns a hash of the result, the same with all
// vectors.
uint64_t SubtractAndHash(Cost from, size_t length, Cost* costs);

}  // namespace oneflow
