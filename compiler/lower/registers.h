// Makes registers of tensors: their layouts and bytes.
#pragma once

#include <string>

#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

inline constexpr int64_t kRegisterAlign = 64;

int64_t RoundUp(int64_t bytes);

// Makes a register of one slot for `tensor` on `stage`; the caller sets its id.
proto::Register MakeRegister(const Graph& graph, TensorId tensor, int stage);

// Makes a register of one slot of `bytes` bytes, for scratch on `stage`; the caller sets its id.
proto::Register MakeWorkspace(const std::string& name, int stage, int64_t bytes);

// Local sizes of the largest part: that of coordinate 0 on every axis.
Dims LocalDims(const Graph& graph, TensorId tensor);

}  // namespace oneflow
