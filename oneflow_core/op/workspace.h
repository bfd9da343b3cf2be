// The scratch that a device of a kind needs beside a kernel's inputs and outputs. The compiler
// plans it, the verifier checks it, and a kernel that is given it runs.
#pragma once

#include <cstdint>
#include <string_view>

#include "oneflow_core/op/product_spec.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Bytes of scratch for one firing of the kernel of `kind`, as its definition says; `threads` of
// them work at once. 0: none, as for kernels of no op.
int64_t WorkspaceBytes(proto::DeviceKind device, std::string_view kind, const LocalOp& op,
                       int threads);

}  // namespace oneflow
