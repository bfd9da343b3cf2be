// Between the labels of a ChoiceNetwork and how the tensors of a graph lie. Part of infer_sbp.
#pragma once

#include <string>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/sbp_network.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// All of more than one device but that of stages.
std::vector<int> AxesToChoose(const Mesh& mesh);

// Lays every tensor whole on every axis.
SbpChoice LayWhole(Graph* graph);

// Lays tensors as the labels of the problem's variables say.
void Store(const SbpProblem& problem, const std::vector<int>& label, Graph* graph,
           SbpChoice* choice);

// The labels of the problem's variables that stand for a choice.
std::vector<int> LabelsOf(const SbpProblem& problem, const Graph& graph, const SbpChoice& choice);

// For `explain`: the user's own variables that do not lie whole on the axis, ops whose result is a
// partial value, and how many do not.
void AddNotes(const Graph& graph, int axis, SbpChoice* choice);

// What is proved of a choice, by which model: that no other layout has a smaller sum of what
// kernels and exchanges take in a step, one after another; or by how much another could. Literally:
// for each layout of which no gradient is charged (sbp_network.h), that sum is at least best.bound.
std::string ProofText(const SbpCosts& costs, const Choices& best, const SbpOptions& options);

}  // namespace oneflow
