// Runs the threads of a kernel.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <vector>

#include "actor_runtime/cuda/emulated/launch.h"
#include "actor_runtime/cuda/emulated/order.h"

namespace oneflow::emulated {

inline constexpr size_t kMostSharedBytes = 227 << 10;

// Calls `thread` for every thread of the grid and returns when all have ended. Returns what is
// wrong with the kernel, if anything is: threads that wait for others that do not come, lanes of a
// warp in different functions, a mask that is not full. The rest of the grid is then left out.
//
// Requires: a valid grid; one call at a time.
std::string RunGrid(const char* name, const Grid& grid, const std::function<void()>& thread,
                    const KernelOrder& order);

// A __syncthreads or __syncwarp in the source of a kernel, or of what it includes.
struct Barrier {
  std::string kernel, file;
  int line = 0;
  auto operator<=>(const Barrier&) const = default;
};

// For tests of barriers: those that threads come to are noted from now on, and what was noted
// before is forgotten. While no thread runs.
void NoteBarriers();
// In the order of kernels and places. None are noted any more.
std::vector<Barrier> TakeNotedBarriers();
// From now on threads go by that barrier as if it did not stand there; null: there are all of them.
// While no thread runs.
void RemoveBarrier(const Barrier* barrier);

}  // namespace oneflow::emulated
