// The programs of a plan: drafts their options and graphs, and lists the tensors that each hands to
// the host. Part of compile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/update_rule.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// A program between its draft and its plan.
struct ProgramDraft {
  LowerOptions lower;
  bool train = false;
  OptimizerOptions optimizer;
  bool loss = false;             // keep the loss
  size_t outputs = 0;            // keep so many outputs
  int64_t positions = 0;         // > 0: for so many new positions, earlier ones are cached
  bool split_positions = false;  // see CompileOptions
  int context_pieces = 1;        // see CompileOptions
  Graph graph;                   // boxed, once the front end has run
  std::vector<std::string> notes;
  std::shared_ptr<KnownLayouts> known_layouts;  // see CompileOptions
  bool keep_layouts = false;                    // see CompileOptions::state_layouts
  // The layouts of this program alone, after the front end, if they are kept.
  proto::Graph layouts;
};

// The number of devices that share the batch: the product of the axes on which an input's dimension
// "batch" is split.
int64_t DataDegree(const Graph& graph);

// Returns the programs that have a graph of their own, "train" first. Checks batch, micro-batches,
// mesh and offload: the options, and the attribute `host` of variables.
absl::StatusOr<std::vector<ProgramDraft>> DraftPrograms(const Graph& graph,
                                                        const CompileOptions& given,
                                                        const UpdateRule& rule);

// Adds the tensors that a boxed program hands to the host: the loss, and its outputs. `names`: of
// the outputs. `as_produced`: their tensors before boxing reduced them.
void AddHostOutputs(const std::vector<std::string>& names, const std::vector<TensorId>& as_produced,
                    ProgramDraft* draft);

}  // namespace oneflow
