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

// For `explain`: the variables that are not replicated on the axis, the ops whose result is a
// partial value, and how many forward ops put out less than the full tensor.
void AddNotes(const Graph& graph, int axis, SbpChoice* choice);

// The sentence that says what is proved of a choice, and by which model: no other layout has a
// smaller sum of the seconds of kernels and exchanges in a step, one after another; or by how much
// another could be smaller. Literally: for each layout without a mirror charge (sbp_network.h),
// that sum is at least best.bound.
std::string ProofText(const SbpCosts& costs, const Choices& best, const SbpOptions& options);

}  // namespace oneflow
