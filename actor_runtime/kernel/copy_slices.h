// The copying that one member of a group needs done in an exchange, in pieces that any thread may
// take, in any order. The local boxing kernels (slice, zero_fill) run the same pieces on a device's
// own pool.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

struct CopyPieces {
  int count = 0;
  // Piece `piece` of output 0, from sources input 0. Of the call only in, out and accumulate are
  // looked at. Different pieces write different elements.
  std::function<void(int piece, const KernelCall& call)> run;
};

// setup.in[0]: the sources, in the order of the group; setup.out[0]: the member's output.
absl::StatusOr<CopyPieces> MakeCopyPieces(const KernelSetup& setup);

}  // namespace oneflow
