// The simplest of the plans that predictions cannot tell apart.
//
// Two plans of one model share most of a prediction's error, so their order holds better than their
// times. Plans within kOrderSpread of the fastest are one class, of which the simplest is shown
// first.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/search/result.h"

namespace oneflow {

// The largest predicted difference of two published runs of one model, batch and number of devices
// that were measured in the other order: 14.6B with 48 micro-batches, interleaved and ZB-1p, in
// docs/results/published-2026-11-29.txt (docs/search.md, the class).
inline constexpr double kOrderSpread = 0.0255;

// How many of `found`, the fastest first, take at most kOrderSpread longer than the fastest.
size_t CountClass(const std::vector<FoundPlan>& found);

// True if `a` is simpler by the first of these in which they differ: fewer axes; 1f1b before
// interleaved before zero_bubble; equal stages; one recompute for all blocks, and none before any;
// a shorter pipe; memory to spare; no offload. `capacity`: bytes of a device; 0: not limited.
bool IsSimpler(const FoundPlan& a, const FoundPlan& b, int64_t capacity);

// The index of the simplest plan of the class; of equals, the fastest. Requires a plan.
size_t FindSimplest(const std::vector<FoundPlan>& found, int64_t capacity);

// Adds a plan to `all`, the fastest first, and returns true if it is the fastest. Of one group are
// kept the best of its mixes, and the best with one policy of recompute for all blocks. Keeps `top`
// plans, and the class.
bool AddFound(FoundPlan found, int top, std::vector<FoundPlan>* all);

// Leaves `top` plans, and behind them, if `simplest`, the simplest of the class where it is none of
// these.
void TrimFound(int top, bool simplest, int64_t capacity, std::vector<FoundPlan>* all);

}  // namespace oneflow
