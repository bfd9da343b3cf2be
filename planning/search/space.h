// The space of a search: which plan groups (candidate.h) there are for a model and a number of
// devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph_proto.h"
#include "planning/search/candidate.h"
#include "planning/search/fixes.h"
#include "planning/search/model_shape.h"

namespace oneflow {

struct SearchSpec {
  GraphSource source;
  // The request with what is not searched: batch, precision, optimizer, cluster, memory, pieces of
  // logits, ... The mesh has no axes.
  PlanRequest given;
  int64_t devices = 1;
  Fixes fixed;
};

// All plan groups, in an order that depends on the spec alone:
//
//   mesh           all factorisations over pipe (at most the blocks), data, expert (of a mixture, a
//                  divisor of its experts), context (of a mixture, a divisor of the sequence) and
//                  tensor (in factors where it splits groups and their heads; at most the heads).
//                  Where data axes span nodes, also data=AxB with the B devices of a node that are
//                  left.
//   micro-batches  all numbers that divide the batch and leave every data part a sequence, up to
//                  kManyTokens; of those with equally many on the largest data part, the least
//   schedule       1f1b; with stages also zero_bubble, and interleaved with chunks that divide the
//                  blocks evenly (2 where no number does), up to the first number with which the
//                  pipe fills and drains in less than 1 % of a step
//   shard          none, states, gradients, weights; in data=AxB: weights over B, states over all
//   positions      may be split on tensor axes; layouts are chosen with and without
//   offload        none; with host memory given also states
//
// Fixes narrow it; a fixed value that is not listed here is the only one. Errors: a number of
// devices of which no mesh can be made, with the nearest that work; a batch that no mesh divides; a
// graph without blocks; fixes that exclude each other.
absl::StatusOr<std::vector<proto::Recipe>> ListGroups(const SearchSpec& spec);

// An input error where no search can be made of the graph: it has no blocks, or too many classes of
// them.
absl::Status CheckBlocks(const GraphSource& source);

// Says what is searched and what is not, for people: a line each.
std::string DescribeSpace(const SearchSpec& spec);

}  // namespace oneflow
