// Converts between .npy files and the pieces of feed and fetch actors.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/plan.pb.h"
#include "training/data/npy.h"

namespace oneflow {

// OK if `array` has the shape and dtype of input `name` of a program; otherwise the error names
// both. Indices (ids of tokens, labels) must also be within the tensor that they select from:
// kernels do not check them, and would take others as zeros. Requires a plan that passed
// VerifyPlan.
absl::Status CheckFeed(const proto::Plan& plan, const std::string& program, const std::string& name,
                       const NpyArray& array, const std::string& file);

// Copies the piece's slice of `array` to the device.
absl::Status CopyFeed(const NpyArray& array, const Piece& piece);

// The results of fetch actors: the full tensors, and for each rank the local piece as produced.
struct FetchedTensors {
  std::map<std::string, NpyArray> full;
  std::map<std::string, std::map<int, NpyArray>> shards;
  absl::Status Take(const Piece& piece);
};

}  // namespace oneflow
