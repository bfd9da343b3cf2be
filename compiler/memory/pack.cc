#include "compiler/memory/pack.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace oneflow {
namespace {

// Larger keys first; of equal ones the first.
template <typename Key>
std::vector<int> Descending(size_t n, Key key) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  return order;
}

}  // namespace

Packing FirstFit(const std::vector<int64_t>& bytes, const std::vector<int>& order,
                 const Pairs& meet) {
  Packing packing{std::vector<int64_t>(bytes.size(), 0)};
  std::vector<int> placed;  // by offset
  for (int i : order) {
    int64_t at = 0;
    for (int other : placed) {
      if (packing.offsets[other] - at >= bytes[i]) break;
      if (packing.offsets[other] + bytes[other] > at && meet.Contains(i, other)) {
        at = packing.offsets[other] + bytes[other];
      }
    }
    packing.offsets[i] = at;
    packing.bytes = std::max(packing.bytes, at + bytes[i]);
    const auto after = [&](int64_t offset, int other) { return offset < packing.offsets[other]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at, after), i);
  }
  return packing;
}

Packing Pack(const std::vector<int64_t>& bytes, const std::vector<int64_t>& lengths,
             const Pairs& meet) {
  const size_t n = bytes.size();
  Packing best = FirstFit(bytes, Descending(n, [&](int i) { return bytes[i]; }), meet);
  const auto tried = {Descending(n, [&](int i) { return std::pair(lengths[i], bytes[i]); }),
                      Descending(n, [&](int i) {
                        return static_cast<double>(bytes[i]) * static_cast<double>(lengths[i]);
                      })};
  for (const std::vector<int>& order : tried) {
    Packing packing = FirstFit(bytes, order, meet);
    if (packing.bytes < best.bytes) best = std::move(packing);
  }
  return best;
}

}  // namespace oneflow
