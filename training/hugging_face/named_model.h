// A model by what a user names it with: a preset ("llama3.1-8b"), a public name
// ("meta-llama/Llama-3.1-8B"), a config.json, or a folder with one.
//
//   ASSIGN_OR_RETURN(const NamedModel named, FindNamedModel("models/phi3", {.approximate = true}));
//   named.graph, named.model; DifferenceLines(named.differences)
//
// It reads no weights. Graph files and plans are not its business: NamesModel is false of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"
#include "training/hugging_face/nearest_model.h"

namespace oneflow {

struct NamedModelOptions {
  // Numbers in place of the model's: sequence, vocab, dropout, attention, masks, and those of a
  // mixture that act in training alone. Others are refused, but for a preset. What is trained, its
  // adapters, is in the graph alone.
  proto::Model said;
  // Takes the nearest model where this one cannot be built.
  bool approximate = false;
};

struct NamedModel {
  proto::Model model;     // complete
  proto::Graph graph;     // of it
  std::string name;       // "llama3.1-8b"; of a configuration that no preset has, its type: "phi3"
  std::string origin;     // "preset llama3.1-8b" or "models/phi3/config.json"
  int64_t positions = 0;  // the longest sequence of the model as published
  std::vector<ModelDifference> differences;  // empty: it is the model that was named
  int64_t parameters = 0;                    // of the model that was named
};

// True of a folder, of a file of JSON or of weights (which FindNamedModel refuses), and of the name
// of a preset or a public model where no such file exists.
bool NamesModel(const std::string& text);

// An input error says which kind of file the argument is, or names the nearest preset. That of a
// model which cannot be built lists all differences.
absl::StatusOr<NamedModel> FindNamedModel(const std::string& text,
                                          const NamedModelOptions& options = {});

}  // namespace oneflow
