// The order of tokens in which equal slices of a sequence take equal work of causal attention. Half
// of a slice's tokens are from the front of the remaining sequence, half from its end. If 2 p
// divides the length, slice i of p has pieces i and 2 p - 1 - i of 2 p. A query of piece i sees the
// keys of i pieces and a part of its own, so any such two see as many as any other.
//
//   8 tokens, 2 slices: positions 0 1 6 7 | 2 3 4 5
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace oneflow {

// Returns the position of the token at each index of a sequence. Requires parts >= 1; with one, 0,
// 1, ...
std::vector<int32_t> MirroredPositions(int64_t length, int parts);

// Returns the largest R such that indices [i R, (i + 1) R) of each slice are positions [j R, (j +
// 1) R); all divisors of R have this property, too. `positions` as above, of so many slices, or 0,
// 1, ...
int64_t LongestRun(std::span<const int32_t> positions, int parts);

}  // namespace oneflow
