// A model with other blocks: fewer, more, or of one class alone.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace oneflow {

// The number of blocks of a model (Op::block); 0: it has none.
int CountBlocks(const proto::Graph& graph);

// `graph` with these of its blocks alone, in increasing order and numbered from 0 on: what read one
// that is left out reads what that read of those before it. An input error where a block that is
// left out reads or writes several tensors.
absl::StatusOr<proto::Graph> KeepBlocks(const proto::Graph& graph, const std::vector<int>& kept);

// `graph` with `blocks` blocks of one class (block_classes.h): all others are left out. The first
// ones of the class stay, and what read the last one reads the last of these; with more than it
// has, copies of the last one follow. Requires blocks >= 1, and that the graph has blocks of the
// class. An input error where KeepBlocks has one; or where there is one block, which reads or
// writes several tensors, so that it does not tell what a next one reads.
absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks, int block_class = 0);

}  // namespace oneflow
