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
// Micro-batches of so many tokens on a device, or the first of more, are the largest, unless they
// are fixed: products do not get faster with more.
inline constexpr int64_t kManyTokens = 32768;

struct Degrees {
  int pipe = 1, data = 1, expert = 1, context = 1, tensor = 1;
  int64_t batch_parts() const { return int64_t{data} * expert; }
  int64_t token_parts() const { return batch_parts() * context; }
  bool operator==(const Degrees&) const = default;
};

// All factorisations that the model and the fixed degrees allow; pipe slowest, then tensor,
// context, expert, and data, which takes the rest.
std::vector<Degrees> ListDegrees(const ModelShape& shape, const Fixes& fixed, int64_t devices);

// Sequences of a micro-batch on the data part that has most; others have one less where the data
// parts are unequal.
int64_t FindMostSequences(int64_t batch, int64_t micro_batches, int64_t batch_parts);

// Numbers of micro-batches, ascending: all that divide the batch and leave each data part a
// sequence. Of those with equally many on the data part that has most, the least: more of them take
// longer. `sequence`: tokens of one; 0: not known.
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
