// The degrees of a mesh as other systems count them. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"

namespace oneflow::foreign {

// Parallel degrees; their product, but for `expert`, which is taken from data, is the number of
// devices.
struct AxisDegrees {
  int64_t tensor = 1, pipe = 1, context = 1;
  int64_t data = 1;    // of all axes that split the batch
  int64_t expert = 1;  // that split experts: a factor of `data`
  int64_t shard = 1;   // of `data`, over which weights or states are split; the inner part
  bool pipe_within_data = false;  // data is outside of pipe
  int64_t devices() const { return tensor * pipe * context * data; }
  bool operator==(const AxisDegrees&) const = default;
};

// An input error where the mesh has an axis of no such name.
absl::StatusOr<AxisDegrees> FindDegrees(const proto::Recipe& recipe);

// Writes mesh, experts, shard and reduce of a recipe for the degrees: axes pipe, data, expert,
// context and tensor in this order (data first, where pipe_within_data), those of one device left
// out. Where `shard` is less than `data`, data has two factors, of which data.1 is split.
// `parts`: how many of states, gradients and weights are split, in this order.
// `reduced`: gradients are reduced as a micro-batch
// ends over all axes that do not split them.
struct Splits {
  int parts = 0;
  bool reduced = false;
};
void SetMesh(const AxisDegrees& degrees, const Splits& splits, proto::Recipe* recipe);

// The number of parts that the recipe splits over any axis of two devices or more: 0 to 3.
int CountSplit(const proto::Recipe& recipe);

// Sequences of a micro-batch on each device. An input error where the batch is not divisible.
absl::StatusOr<int64_t> FindMicroBatch(const proto::Recipe& recipe, const AxisDegrees& degrees);

// Nodes of `devices`, at most `devices_a_node` each, all equally large.
struct Nodes {
  int64_t nodes = 1, each = 1;
};
Nodes FindNodes(int64_t devices, int64_t devices_a_node);

}  // namespace oneflow::foreign
