// The logical graph of a Hugging Face model, and back: the configuration that a graph has.
//
//   ASSIGN_OR_RETURN(const proto::Graph graph, BuildModelGraph(config, {.vocab = 50304}));
//   ASSIGN_OR_RETURN(HuggingFaceConfig same, DescribeModelGraph(graph));   // but for its ids
//
// It reads no files and no weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/model/file_tensors.h"
#include "proto/graph.pb.h"
#include "training/files/model_notes.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {

struct ModelGraphOptions {
  int64_t sequence = 0;  // 0: the longest of the configuration
  int64_t vocab = 0;     // rows of the embedding; 0: those of the configuration
};

// An input error names the number of the configuration, or the option, that is out of range.
absl::StatusOr<proto::Graph> BuildModelGraph(const HuggingFaceConfig& config,
                                             const ModelGraphOptions& options);

// The configuration of a graph of `oneflow model`: model_type, sizes and attributes. The ids of
// tokens and the element type are not in a graph. An input error unless a model of that
// configuration computes exactly what the graph does, but for what experts do in training alone:
// capacities and losses of routers. It names the first op that differs, or the numbers of which the
// nearest type says others. `preferred`: the type where several compute the same.
absl::StatusOr<HuggingFaceConfig> DescribeModelGraph(const proto::Graph& graph,
                                                     std::string_view preferred = "");

// Every number of the model that a graph computes, those that act in training alone among them;
// built again, it is the graph. An input error where `oneflow model` makes no such graph.
absl::StatusOr<proto::Model> DescribeModel(const proto::Graph& graph);

// The table of the tensors of a model's files.
FamilyFiles FindFiles(const HuggingFaceConfig& config);

// NameOtherParts of a model's files.
std::vector<std::string> FindOtherParts(const HuggingFaceConfig& config);

// Gives the model the block of next tokens if the folder has it; returns why not, or "".
absl::StatusOr<std::string> FindNextTokens(const ModelFolder& folder, HuggingFaceConfig* config);
// The configuration of a folder with or without that block, as `said` has it; `note` becomes a line
// that says which. `why`: of FindNextTokens. An input error where it is asked for and not there.
absl::StatusOr<HuggingFaceConfig> ChooseNextTokens(HuggingFaceConfig config,
                                                   const proto::Model& said, const std::string& why,
                                                   const std::string& folder, std::string* note);

// MapVariables of the variables of the model's graph.
absl::StatusOr<std::vector<MappedVariable>> MapModel(const ModelFolder& folder,
                                                     const HuggingFaceConfig& config,
                                                     const proto::Graph& graph);

// The element type of files: "bf16", that of most elements of the variables.
std::string FindType(const std::vector<MappedVariable>& variables);
// The facts of a folder that a graph does not say.
ModelNotes MakeNotes(const HuggingFaceConfig& config, const std::vector<MappedVariable>& variables);

}  // namespace oneflow
