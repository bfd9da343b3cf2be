#include "oneflow_core/tensor/mirrored.h"

#include <numeric>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {

std::vector<int32_t> MirroredPositions(int64_t length, int parts) {
  std::vector<int32_t> positions;
  positions.reserve(length);
  int64_t front = 0, end = length;  // of what is left
  for (int i = 0; i < parts; ++i) {
    const int64_t size = EvenPart(length, parts, i).size, first = (size + 1) / 2;
    end -= size - first;
    for (int64_t j = 0; j < first; ++j) positions.push_back(static_cast<int32_t>(front + j));
    for (int64_t j = 0; j < size - first; ++j) positions.push_back(static_cast<int32_t>(end + j));
    front += first;
  }
  return positions;
}

int64_t LongestRun(std::span<const int32_t> positions, int parts) {
  const auto length = static_cast<int64_t>(positions.size());
  int64_t run = length;
  for (int i = 0; i < parts; ++i) run = std::gcd(run, EvenPart(length, parts, i).begin);
  for (int64_t at = 1; at < length; ++at) {
    if (positions[at] == positions[at - 1] + 1) continue;
    run = std::gcd(std::gcd(run, at), int64_t{positions[at]});
    run = std::gcd(run, int64_t{positions[at - 1]} + 1);
  }
  return run;
}

}  // namespace oneflow
