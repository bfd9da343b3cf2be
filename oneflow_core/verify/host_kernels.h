// The kernels that the compiler adds and no graph has: what the host worker runs, and copies
// between the memory of a device and the host's (docs/ops.md).
#pragma once

#include <string_view>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Arity and attributes; nullptr if there is none of this name.
const OpDef* FindHostKernel(std::string_view kind);

}  // namespace oneflow
