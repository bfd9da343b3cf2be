// Rings of places: groups of registers that follow one another round the same places.
//
// A stage that holds several chunks of the model saves as many micro-batches of each as its turn
// asks for, but not of all chunks at the same time: while the forwards of one take places, the
// backwards of another give theirs back. So each chunk's registers have more slots in sum than are
// ever full together. On a ring of places every group has a run of them, which moves on by one with
// each fill, and the run of the group that stays behind it begins where its own ends: what this one
// gives back, that one takes.
//
//   places   0 0 0 0 2 2 2 .      a micro-batch of chunk 2 is returned, then
//            0 0 0 0 0 2 2 .      a forward of chunk 0 comes: chunk 0 stays behind chunk 2;
//            . . 0 0 0 2 2 .      backwards of chunk 0, then
//            2 . 0 0 0 2 2 2      forwards of chunk 2: round the ring it stays behind chunk 0
//
// The distance D(x, y) is by how many places x must stay behind y: the least d such that fill i of
// x begins only after fill i - d of y is over, for all i. A ring of x, y, ..., z takes D(x, y) +
// ... + D(z, x) places, a group by itself its slots. Who follows whom with the fewest places in
// all, of groups that take about as many bytes, is an assignment problem (Kuhn, 1955).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/memory/lifetimes.h"

namespace oneflow {

// Fills in time: fill i of all of them begins before fill i + 1 of any, and so they may lie side by
// side in the places of a ring.
struct RingGroup {
  std::vector<int> lives;  // indices in the lifetimes given
  int64_t first_place = 0;
};

struct PlaceRing {
  int64_t places = 1;
  std::vector<RingGroup> groups;  // at least two
};

// Rings of registers with several slots that save bytes, disjoint; none where every group does best
// by itself.
std::vector<PlaceRing> FindPlaceRings(const StageLifetimes& stage);

// The least sum of cost[i][j], j other than those of the other i: j by i. Requires a square.
std::vector<int> Assignment(const std::vector<std::vector<int64_t>>& cost);

}  // namespace oneflow
