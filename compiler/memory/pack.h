// Packing: assigns offsets to pieces of memory so that pieces that hold something at the same time
// do not overlap, in as few bytes as the heuristic finds.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/memory/lifetimes.h"

namespace oneflow {

// A piece gets one offset. Its parts may hold something at different times. Between the parts, and
// outside their times, its bytes are free.
struct Piece {
  struct Part {
    int64_t offset = 0, bytes = 0;  // in the piece
    Spans spans;
  };
  Spans spans;              // when any part holds something
  std::vector<Part> parts;  // at least one
  // The piece has one part, which may overlap parts of another piece only while none of them holds
  // anything.
  bool exclusive = false;
};

struct Packing {
  std::vector<int64_t> offsets;  // by piece
  int64_t bytes = 0;             // that all of them take
};

// The smallest of first fits in several orders: the largest first, the longest-lived first, and by
// bytes times length. Where that is more than a hundredth over what is held at once, the largest
// piece that ends beyond is moved to the front of the best order, again and again until nothing is
// gained any more, and the smallest of all counts. In an order, each piece goes to the least offset
// that is free of those before it. Deterministic.
// `apart`: pairs of pieces of one part that never hold something at once, whatever their spans say.
// `bound`: bytes that any packing takes. Where spans ask for more, and the packing takes a fiftieth
// more than the bound, pairs of `apart` that have the same bytes are tried as one piece, too.
Packing Pack(const std::vector<Piece>& pieces, const std::vector<std::pair<int, int>>& apart = {},
             int64_t bound = std::numeric_limits<int64_t>::max());

}  // namespace oneflow
