// A model with another number of blocks.
#pragma once

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace oneflow {

// The number of blocks of a model (Op::block); 0: it has none.
int CountBlocks(const proto::Graph& graph);

// `graph` with its first `blocks` blocks: what read the last one reads the last of these. With more
// than it has, copies of the last one follow. Requires blocks >= 1 and a graph with blocks. An
// input error where blocks differ from each other, so that few of them do not tell of all; or where
// there is one, which reads or writes several tensors, so that it does not tell what a next one
// reads.
absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks);

}  // namespace oneflow
