// A model, from what a user says of it to its graph. What a family has and does is its row
// (families.h); none is named here.
//
//   proto::Model said;                                         // proto/recipe.proto
//   said.set_family("llama"), said.set_preset("llama3.1-8b"), said.set_sequence(8192);
//   ASSIGN_OR_RETURN(const proto::Model model, CompleteModel(said));
//   proto::Graph graph = BuildModel(model);                    // "llama3.1-8b", of 8192 positions
//
// A model is complete if every number of its family is set.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Returns `said` with the numbers of its preset, else the family's defaults, for those that are
// absent, and with what follows from those that are given. A complete model comes back as it is.
// Errors name the flag: a family or preset that there is none of, a number of another family, one
// out of its row's range (recipe/model_rows.cc), two that do not fit together.
absl::StatusOr<proto::Model> CompleteModel(const proto::Model& said);

// The same of a model's text form, for which it must succeed: "family: 'gpt' layers: 2".
proto::Model MakeModel(const std::string& text);

// Requires a complete model. The graph is named after `name`, else the preset, else the family.
// What a model says of its training is not in it: AdaptGraph (add_adapters.h) adds that.
proto::Graph BuildModel(const proto::Model& complete, std::string name = "");

// Elements of all variables of a graph that gradients train, a tied embedding once, without the
// biases of choices that a rule moves; and those that the computation of one token reads: of a
// mixture, only the chosen experts count.
int64_t CountParameters(const proto::Graph& graph);
// The variables of such biases.
std::set<std::string> ListMovedBiases(const proto::Graph& graph);
int64_t CountActiveParameters(const proto::Model& complete, const proto::Graph& graph);

}  // namespace oneflow
