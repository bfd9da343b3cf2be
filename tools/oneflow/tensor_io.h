// Between .npy files and the pieces that feed and fetch actors exchange.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "actor_runtime/data/npy.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Whether `array` has the shape and dtype of input `name` of a program; names both if not.
absl::Status CheckFeed(const proto::Plan& plan, const std::string& program, const std::string& name,
                       const NpyArray& array, const std::string& file);

// Copies the piece's slice of `array` to the device.
absl::Status CopyFeed(const NpyArray& array, const Piece& piece);

// What fetch actors gave: the whole tensors, and for each rank the raw local piece.
struct FetchedTensors {
  std::map<std::string, NpyArray> whole;
  std::map<std::string, std::map<int, NpyArray>> shards;
  absl::Status Take(const Piece& piece);
};

}  // namespace oneflow
