// The front end of compile: the passes that make a boxed graph of a logical one, as a value. Part
// of compile; tests/golden and `oneflow explain --after=PASS` run the same passes.
//
//   for (const FrontEndPass& pass : FrontEndPasses()) ... pass.run(&state) ...
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/passes/differentiate.h"
#include "compiler/programs.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A program between its passes.
struct FrontEndState {
  const proto::Plan& plan;  // its header; variables of earlier programs keep their layouts
  ProgramDraft& draft;      // draft.graph is what passes change

  // What a pass leaves for later ones.
  Gradients gradients;                 // of differentiate
  std::vector<std::string> outputs;    // names of the graph's outputs, of place_variables
  SbpChoice choice;                    // of infer_sbp
  std::vector<TensorId> unboxed = {};  // the graph's outputs before insert_boxing
};

struct FrontEndPass {
  std::string_view name;
  // Whether it has something to do for a program; null: for each.
  bool (*wanted)(const FrontEndState& state);
  absl::Status (*run)(FrontEndState* state);
  // Closes the phase: proves what it and those before it have made. Null: a later pass does.
  absl::Status (*verify)(const Graph& graph);
};

// In the order in which compile runs them (passes/passes.h says what each does).
std::span<const FrontEndPass> FrontEndPasses();

// Runs them on `logical`, whose stages are folded, up to `last`; all, if that is empty.
absl::Status RunFrontEnd(const Graph& logical, const proto::Plan& plan, ProgramDraft* draft,
                         std::string_view last = "");

}  // namespace oneflow
