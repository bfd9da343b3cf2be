// The meshes that a number of devices can form for a model.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"
#include "planning/search/fixes.h"
#include "planning/search/model_shape.h"

namespace oneflow {

// Positions of a part of a sequence, at least, unless the degree is fixed: attention of fewer waits
// for keys and values for longer than it computes.
inline constexpr int64_t kLeastPositions = 4096;
// Tokens of a micro-batch on a device, at most, unless it is one sequence or fixed: products do not
// get faster with more.
inline constexpr int64_t kMostTokens = 32768;

struct Degrees {
  int pipe = 1, data = 1, expert = 1, context = 1, tensor = 1;
  int64_t batch_parts() const { return int64_t{data} * expert; }
  int64_t token_parts() const { return batch_parts() * context; }
  bool operator==(const Degrees&) const = default;
};

// All factorisations that the model and the fixed degrees allow; pipe slowest, then tensor,
// context, expert, and data, which takes the rest.
std::vector<Degrees> ListDegrees(const ModelShape& shape, const Fixes& fixed, int64_t devices);

// All numbers of micro-batches of which each data part takes equally many sequences, ascending.
// `sequence`: tokens of one; 0: not known.
std::vector<int64_t> ListMicroBatches(int64_t batch, const Degrees& degrees, const Fixes& fixed,
                                      int64_t sequence = 0);

// Axes of more than one device: pipe, data, expert, context, tensor. `inner`: the second factor of
// data; 1: one axis.
Mesh MakeMesh(const ModelShape& shape, const Degrees& degrees, int inner = 1);

// ListDegrees of those that the batch allows, at least one. The errors say what is in the way: a
// fixed degree that the model cannot have, the number of devices, or the batch.
absl::StatusOr<std::vector<Degrees>> FindDegrees(const ModelShape& shape, const Fixes& fixed,
                                                 int64_t devices, int64_t batch);

}  // namespace oneflow
