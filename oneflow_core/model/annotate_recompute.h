// Selects the ops of a model that the backward recomputes: writes Op::recompute.
//
//   none        nothing (but what the graph itself says)
//   attention   its core: scores, softmax, dropout and weighted values; Korthikanti's selective
//   selective   that, norms, activations and dropout, each alone: all that takes little time, and
//               of which the backward has the inputs anyway (OpDef::selective)
//   full        a block at a time: of each block only its input is kept
//   gather      beside one of these: what the forward gathers of its activations (sequence
//               parallelism does, before products) the backward gathers again; only parts are kept.
//               It is no property of ops: the pass insert_boxing sees to it
//
// In a graph of one's own, `recompute: "name"` on an op makes scopes of any ops.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct RecomputePolicy {
  std::string ops;  // "none", "attention", "selective" or "full"
  bool gather = false;
};

// Of "full", "attention,gather", ...; "" is none. Errors: a word that is not known, two of ops.
absl::StatusOr<RecomputePolicy> ParseRecompute(std::string_view policy);

// "" is none. Errors: a policy that is not known; one but none and gather for a graph without
// blocks (Op::block).
absl::Status AnnotateRecompute(Graph* graph, std::string_view policy);

}  // namespace oneflow
