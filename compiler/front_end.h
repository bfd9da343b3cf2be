// The front end of compile: the passes that make a boxed graph of a logical one, as a value. Part
// of compile; tests/golden and `oneflow explain --after=PASS` run the same passes.
//
//   for (const FrontEndPass& pass : FrontEndPasses()) ... pass.run(&state) ...
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/passes/passes.h"
#include "compiler/programs.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A program between its passes.
struct FrontEndState {
  const proto::Plan& plan;  // its header; variables of earlier programs keep their layouts
  std::shared_ptr<KnownLayouts> known_layouts;
  ProgramDraft& draft;  // draft.graph is what passes change

  // Results of a pass that later ones read.
  Gradients gradients;                 // of differentiate
  std::vector<std::string> outputs;    // names of the graph's outputs, of place_variables
  SbpChoice choice;                    // of infer_sbp
  std::vector<TensorId> unboxed = {};  // the graph's outputs before insert_boxing
};

struct FrontEndPass {
  std::string_view name;
  // True if it has something to do for a program; null: for each.
  bool (*wanted)(const FrontEndState& state);
  absl::Status (*run)(FrontEndState* state);
  // Checks the graph at the end of a phase, of which this is the last pass, also for programs that
  // do not want the pass. Null: a later pass ends the phase.
  absl::Status (*verify)(const Graph& graph) = nullptr;
};

// In the order in which compile runs them (passes/passes.h says what each does).
std::span<const FrontEndPass> FrontEndPasses();

// Runs the passes on `logical`, whose stages are folded, up to `last`; all, if that is empty.
absl::Status RunFrontEnd(const Graph& logical, const proto::Plan& plan,
                         std::shared_ptr<KnownLayouts> known_layouts, ProgramDraft* draft,
                         std::string_view last = "");

}  // namespace oneflow
