// Fine-tuning as a rewriting of a model's graph: adapters beside its products, variables that
// nothing trains.
//
//   proto::Lora lora;
//   lora.set_rank(16), lora.add_target("attn"), lora.add_target("mlp");
//   ASSIGN_OR_RETURN(graph, AddAdapters(std::move(graph), lora));  // all others are frozen
//   ASSIGN_OR_RETURN(graph, TrainOnly(std::move(graph), "h.*.norm_*"));  // these are trained, too
//
// It works on any graph of a family (families.h). The base of a graph (Graph::base) is the caller's
// to set. Next: adapters.h, which variables and ops are added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Adds an adapter to each product that a target names, and freezes all variables. A target is a
// part of the name of a product within a block, or of its tensor in files of Hugging Face: "attn",
// "mlp", "q", "attn.proj", "o_proj", "c_attn"; "all" or "all-linear" is every product of the
// blocks. Errors: a target that names none, or an expert's product, a router's, an embedding or a
// head; a graph of no family, with adapters or stated layouts.
absl::StatusOr<proto::Graph> AddAdapters(proto::Graph graph, const proto::Lora& lora);

// Freezes all variables but those that a pattern names, and adapters. `patterns` are parted by
// commas; "*" is any text: "h.*.ln_*", "head.*", "*.bias", "h.10". A pattern that ends where a name
// has a dot names all behind it. Tensors of Hugging Face are named as well:
// "model.layers.*.input_layernorm.*". In a graph with adapters it unfreezes what it names. Errors:
// a pattern that names no variable, or a part of one.
absl::StatusOr<proto::Graph> TrainOnly(proto::Graph graph, std::string_view patterns);

// Both, as far as `said` says them; as far as they made `other`, whose base the graph gets, too.
absl::StatusOr<proto::Graph> AdaptGraph(proto::Graph graph, const proto::Model& said);
absl::StatusOr<proto::Graph> AdaptLike(const proto::Graph& other, proto::Graph graph);

// Elements of the variables that are trained.
int64_t CountTrained(const proto::Graph& graph);

}  // namespace oneflow
