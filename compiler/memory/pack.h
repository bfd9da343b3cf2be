// Packing: things of given sizes on as few bytes as we find, where some pairs must not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/pairs.h"

namespace oneflow {

struct Packing {
  std::vector<int64_t> offsets;  // by thing
  int64_t bytes = 0;             // that all of them take
};

// Things of different places in `bytes` do not overlap where they are a pair that meets. Each goes
// to the least offset that is free of those before it in `order`. Deterministic.
Packing FirstFit(const std::vector<int64_t>& bytes, const std::vector<int>& order,
                 const Pairs& meet);

// The smallest of first fits in several orders: the largest first, the longest-lived of
// `lengths` first, and by bytes times length; the first of them where they are equal.
Packing Pack(const std::vector<int64_t>& bytes, const std::vector<int64_t>& lengths,
             const Pairs& meet);

}  // namespace oneflow
