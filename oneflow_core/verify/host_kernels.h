// The kernels that the compiler adds and no graph has: those of the host worker, and copies between
// the memory of a device and the host's (docs/ops.md).
#pragma once

#include <string_view>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Returns arity and attributes; nullptr if no kernel has this name.
const OpDef* FindHostKernel(std::string_view kind);

}  // namespace oneflow
