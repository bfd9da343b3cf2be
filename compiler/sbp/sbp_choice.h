// Conversions between an assignment of a ChoiceNetwork and the layouts of a graph's tensors. Part
// of infer_sbp.
#pragma once

#include <string>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/sbp_network.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// All axes of more than one device, except the stage axis.
std::vector<int> AxesToChoose(const Mesh& mesh);

// Replicates every tensor on every axis.
SbpChoice ReplicateAll(Graph* graph);

// Gives the tensors the layouts of an assignment of the problem's variables.
void Store(const SbpProblem& problem, const std::vector<int>& assignment, Graph* graph,
           SbpChoice* choice);

// The assignment of the problem's variables that corresponds to a choice.
std::vector<int> FindAssignment(const SbpProblem& problem, const Graph& graph,
                                const SbpChoice& choice);

// Adds notes for `explain`: the variables that are not replicated on the axis, the ops with a
// partial result, and the number of forward ops with a split result.
void AddNotes(const Graph& graph, int axis, SbpChoice* choice);

// Returns the sentence that states the proof of a choice, and its model. No other layout has a
// smaller sum of the seconds of kernels and exchanges in a step, one after another; or another
// could be smaller by at most so much. Precisely: that sum is at least best.bound for each layout
// without a mirror charge (sbp_network.h).
std::string ProofText(const SbpCosts& costs, const Choices& best, const SbpOptions& options);

}  // namespace oneflow
