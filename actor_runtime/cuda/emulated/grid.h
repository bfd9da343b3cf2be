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

// Calls `thread` for every thread of the grid and returns when all have ended. Returns the kernel's
// mistake, if any: threads that wait for others that do not come, lanes of a warp in different
// functions, a mask that is not full. The rest of the grid is then skipped.
//
// Requires a valid grid; one call at a time.
std::string RunGrid(const char* name, const Grid& grid, const std::function<void()>& thread,
                    const KernelOrder& order);

// A __syncthreads or __syncwarp in the source of a kernel, or in its includes.
struct Barrier {
  std::string kernel, file;
  int line = 0;
  auto operator<=>(const Barrier&) const = default;
};

// For tests of barriers: records the barriers that threads reach from now on, and drops earlier
// records. Call it while no thread runs.
void NoteBarriers();
// In the order of kernels and lines. Recording ends.
std::vector<Barrier> TakeNotedBarriers();
// From now on threads pass that barrier as if it did not exist; null: no barrier is removed. Call
// it while no thread runs.
void RemoveBarrier(const Barrier* barrier);

}  // namespace oneflow::emulated
