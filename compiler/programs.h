// The programs of a plan: drafts their options and graphs, and lists the tensors that each hands to
// the host. Part of compile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/update_rule.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A program that fills the caches of keys and values for so many positions of a text at once.
struct Prefill {
  std::string program;
  int64_t positions;
};

// Those of a plan for a model with sequences of so many tokens, the largest first. Many positions
// share the time to read the weights; a short text does not take the time of a long one.
std::vector<Prefill> FindPrefills(int64_t sequence);

// A program between its draft and its plan.
struct ProgramDraft {
  ProgramSpec spec;
  bool train = false;
  OptimizerOptions optimizer;
  bool loss = false;          // keep the loss
  size_t outputs = 0;         // keep so many outputs
  int64_t positions = 0;      // > 0: for so many new positions, earlier ones are cached
  bool fills_caches = false;  // leaves out what only an output needs
  Graph graph;                // boxed, once the front end has run
  std::vector<std::string> notes;
  // The layouts of this program alone, after the front end, if the recipe states them.
  proto::Graph layouts;
};

// The number of devices that share the batch: the product of the axes on which an input's dimension
// "batch" is split.
int64_t DataDegree(const Graph& graph);

// Returns the programs that have a graph of their own, "train" first. `header`: the plan's, with a
// complete recipe. Checks batch, micro-batches, mesh, and what rests in the host's memory.
absl::StatusOr<std::vector<ProgramDraft>> DraftPrograms(const Graph& graph,
                                                        const proto::Plan& header,
                                                        const UpdateRule& rule);

// Adds the tensors that a boxed program hands to the host: the loss, and its outputs. `names`: of
// the outputs. `as_produced`: their tensors before boxing reduced them.
void AddHostOutputs(const std::vector<std::string>& names, const std::vector<TensorId>& as_produced,
                    ProgramDraft* draft);

}  // namespace oneflow
