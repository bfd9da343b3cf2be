// Runs the threads of a kernel.
#pragma once

#include <functional>
#include <string>

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

}  // namespace oneflow::emulated
