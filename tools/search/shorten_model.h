// A model with fewer blocks: its first ones, with the head behind the last of them.
#pragma once

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace oneflow {

// The number of blocks of a model (Op::block); 0: it has none.
int CountBlocks(const proto::Graph& graph);

// `graph` with its first `blocks` blocks: what read the last one reads the last of these. Requires
// 1 <= blocks <= CountBlocks(graph). An input error where blocks differ from each other, so that
// few of them do not tell of all.
absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks);

}  // namespace oneflow
