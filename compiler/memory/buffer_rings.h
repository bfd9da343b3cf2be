// Rings of buffers: groups of registers that follow one another round the same cyclic buffers.
//
// A stage with several chunks of the model saves as many micro-batches of each as its schedule
// needs, but not of all chunks at the same time. While the forwards of one chunk take slots, the
// backwards of another return theirs. So the registers of all chunks have more slots in sum than
// are ever full at once. On a ring every group has a run of buffers, which advances by one with
// each fill. The run of the next group begins where the run that it stays behind ends, and takes
// the buffers that this returns.
//
//   buffers  0 0 0 0 2 2 2 .      a micro-batch of chunk 2 is returned, then
//            0 0 0 0 0 2 2 .      a forward of chunk 0 comes: chunk 0 stays behind chunk 2;
//            . . 0 0 0 2 2 .      backwards of chunk 0, then
//            2 . 0 0 0 2 2 2      forwards of chunk 2: round the ring it stays behind chunk 0
//
// The distance D(x, y) is the number of buffers by which x must stay behind y. It is the least d
// such that fill i of x begins only after fill i - d of y is over, for all i. A ring of x, y, ...,
// z takes D(x, y) + ... + D(z, x) buffers; a group alone takes its slots. The successors that need
// the fewest buffers in sum, among groups of about as many bytes, solve an assignment problem
// (Kuhn, 1955).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/lifetimes.h"

namespace oneflow {

// Registers whose fills alternate: fill i of all of them begins before fill i + 1 of any. So they
// may be side by side in the buffers of a ring.
struct RingGroup {
  std::vector<int> lives;  // indices in the lifetimes given
  int64_t first_buffer = 0;
};

struct BufferRing {
  int64_t buffers = 1;
  std::vector<RingGroup> groups;  // at least two
};

// Finds disjoint rings, of registers with several slots, that save bytes; none if every group does
// best alone.
std::vector<BufferRing> FindBufferRings(const StageLifetimes& stage);

// Solves the assignment problem: returns by i the j of the least sum of cost[i][j], each j once.
// Requires a square.
std::vector<int> Assignment(const std::vector<std::vector<int64_t>>& cost);

}  // namespace oneflow
