// Which programs a plan gets, what goes into each and what leaves it. Part of compile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/passes/add_optimizer.h"
#include "compiler/schedule/update_rule.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// One program on its way.
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
  proto::Graph
      layouts;  // those of this program alone, once the front end has run, if they are kept
};

// Devices that share the batch: the product of the axes on which an input's dimension "batch" is
// split.
int64_t DataDegree(const Graph& graph);

// The programs with a graph of their own, "train" first. Checks batch, micro-batches, mesh and what
// is offloaded: what the options say, and the attribute `host` of variables.
absl::StatusOr<std::vector<ProgramDraft>> DraftPrograms(const Graph& graph,
                                                        const CompileOptions& given,
                                                        const UpdateRule& rule);

// What leaves a boxed program for the host: the loss, and its outputs. `names`: of the outputs;
// `as_produced`: their tensors before boxing resolved them.
void AddHostOutputs(const std::vector<std::string>& names, const std::vector<TensorId>& as_produced,
                    ProgramDraft* draft);

}  // namespace oneflow
