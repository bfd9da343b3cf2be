// Kernels of the statistics of logits that no tensor holds, and of their gradient: products by
// cuBLASLt, of a piece of the rows at a time. Internal to cuda/kernel.
//
// The contract is that of product.h. The workspace holds a piece of logits, and behind it the
// scratch of the library.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

// As KernelEntry, of a kind whose kernels are made with libraries.
struct LibraryKernelEntry {
  std::string_view kind;
  absl::StatusOr<Kernel> (*make)(const KernelSetup& setup, const Libraries& libraries);
};

std::span<const LibraryKernelEntry> LinearRowStatsTable();

}  // namespace oneflow::cuda
