// Compares layouts by the step that they give. infer_sbp finds the least sum of what kernels and
// exchanges take one after the other. A step may be shorter than that sum, since exchanges go on
// while devices compute, and kernels are fused after layouts are chosen. So the optima of several
// searches are compared by the simulator itself (CompileOptions::step_seconds). Part of compile.
//
// They are compared as one stage with all layers: the choice is then the same at any pipe degree
// and with any schedule, and so are the bits (law 6), unless the plan of the fastest does not fit
// its devices: then the next one is taken.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/programs.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ComparedLayouts {
  LayoutSearch search;
  std::string name;
  double seconds = 0;  // of a step, simulated; 0: it was the only one, and was not
};

// Whether there is something to compare: a mesh whose layouts are to be chosen, links that are
// known, and a simulator.
bool ComparesLayouts(const CompileOptions& options);

// The searches whose layouts differ, the fastest first; of equals the search by the cluster's own
// prices. `make` runs the front end of the first program with a search, as one stage.
using DraftMaker = std::function<absl::StatusOr<ProgramDraft>(const LayoutSearch& search)>;
absl::StatusOr<std::vector<ComparedLayouts>> CompareLayouts(const CompileOptions& one_stage,
                                                            const proto::Plan& header,
                                                            const DraftMaker& make);

// For `explain`: what was compared, and what came out. Empty where there was one candidate.
std::string ComparisonNote(const std::vector<ComparedLayouts>& compared, const std::string& taken);

}  // namespace oneflow
