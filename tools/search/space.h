// The space of a search: which families there are for a model and a number of devices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph_proto.h"
#include "tools/search/candidate.h"

namespace oneflow {

// What a user fixes, of --fix=NAME=VALUE. An axis: pipe, data, tensor, context, expert; or a flag of
// compile that the search chooses.
struct Fixes {
  std::map<std::string, int> degrees;    // by axis
  std::optional<int64_t> micro_batches;
  std::optional<int64_t> micro_batch_size;  // sequences of a data part in a micro-batch
  std::optional<std::string> schedule;
  std::optional<int> chunks;
  std::optional<bool> sequence_parallel;
  std::optional<std::string> shard, recompute, offload;  // words of the flags of these names
  std::optional<std::vector<int>> stage_layers;
};

// "pipe=4,tensor=8" or "schedule=1f1b" added to `fixes`. Errors name `flag`: a name that is not
// known (with the nearest), a value that is none of it, or one that contradicts an earlier.
absl::Status AddFixes(const std::string& flag, const std::string& text, Fixes* fixes);

struct SearchSpec {
  GraphSource source;
  // What is not searched: batch, precision, optimizer, cluster, memory, pieces of logits, ... The
  // mesh has no axes.
  CompileOptions given;
  int64_t devices = 1;
  Fixes fixed;
};

// What of a model its degrees depend on.
struct ModelShape {
  int blocks = 0;        // 0: not a model of blocks
  int64_t sequence = 0;  // tokens
  int64_t experts = 0;   // of a mixture; 0: none
};
ModelShape FindModelShape(const proto::Graph& graph);

// All families, in an order that depends on the spec alone. Errors (nothing is left): a number of
// devices that the fixed degrees do not divide, and fixes that exclude each other, with what is
// nearest to them.
absl::StatusOr<std::vector<Family>> ListFamilies(const SearchSpec& spec);

// What is searched and what is not, for people: a line each.
std::string DescribeSpace(const SearchSpec& spec);

}  // namespace oneflow
