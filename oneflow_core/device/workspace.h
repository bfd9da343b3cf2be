// What a device of a kind needs beside a kernel's inputs and outputs. The compiler plans it, the
// verifier checks it, and a kernel that is given it runs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "oneflow_core/tensor/shape.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Bytes of scratch for one firing of `kernel`, given the shapes of its local inputs (those that it
// updates in place first) and outputs; `threads` of them work at once. 0: none.
int64_t WorkspaceBytes(proto::DeviceKind device, std::string_view kernel,
                       const std::vector<Dims>& in, const std::vector<Dims>& out, int threads);

}  // namespace oneflow
