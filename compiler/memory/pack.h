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
struct ArenaPiece {
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
  int64_t bytes = 0;             // of the arena
};

// Returns the smallest result of first fit in several orders: by bytes, by length of life, and by
// their product, the largest first. First fit gives each piece the least offset at which it
// overlaps no earlier piece. If the smallest result exceeds the most bytes held at once by more
// than 1 %, the best order is improved. The largest piece that ends beyond that mark moves to its
// front, repeatedly, until that gains nothing. Deterministic.
// `apart`: pairs of pieces of one part that never hold something at once, whatever their spans say.
// `bound`: bytes that any packing needs. If the packing exceeds the bound by more than 2 %, pairs
// of `apart` that have the same bytes are also tried as one piece.
Packing Pack(const std::vector<ArenaPiece>& pieces,
             const std::vector<std::pair<int, int>>& apart = {},
             int64_t bound = std::numeric_limits<int64_t>::max());

}  // namespace oneflow
