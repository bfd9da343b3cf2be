#include "training/hugging_face/model_graph.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

// A type whose config.json was made of a model, with the numbers that it gave back.
struct Candidate {
  HuggingFaceConfig config;
  std::vector<std::string> lost;  // numbers of the model that it does not have
};

std::optional<Candidate> TryType(const ModelType& type, const proto::Model& model,
                                 int64_t further_blocks) {
  HuggingFaceConfig said = {
      .model_type = std::string(type.name), .model = model, .further_blocks = further_blocks};
  absl::StatusOr<HuggingFaceConfig> read = ParseHuggingFaceConfig(ConfigText(said), "config.json");
  if (!read.ok()) return std::nullopt;
  std::vector<std::string> lost = ListDifferences(model, read->model);
  return Candidate{*std::move(read), std::move(lost)};
}

}  // namespace

absl::StatusOr<proto::Graph> BuildModelGraph(const HuggingFaceConfig& config,
                                             const ModelGraphOptions& options) {
  proto::Model said = config.model;
  if (options.sequence > said.sequence()) {
    return InputError(absl::StrCat("--sequence=", options.sequence),
                      absl::StrCat("is more than the ", said.sequence(), " positions of the model"),
                      "leave it out, or use a smaller number");
  }
  if (config.is_gpt2() && options.sequence > 0 && options.sequence != said.sequence()) {
    return InputError(
        absl::StrCat("--sequence=", options.sequence),
        absl::StrCat("is not ", said.sequence(), ", for which this model has embedded positions"),
        "leave it out");
  }
  if (options.sequence > 0) said.set_sequence(options.sequence);
  if (options.vocab > 0) said.set_vocab(options.vocab);
  said.clear_dropout();
  if (said.experts() > 0) said.set_aux_loss_coeff(0);
  const absl::StatusOr<proto::Model> model = CompleteModel(said);
  RETURN_IF_ERROR(Annotate(model.status(), "config.json, in the words of `oneflow model`"));
  return BuildModel(*model, config.model_type);
}

absl::StatusOr<HuggingFaceConfig> DescribeModelGraph(const proto::Graph& graph,
                                                     std::string_view preferred) {
  ASSIGN_OR_RETURN(const proto::Model described, DescribeModel(graph));
  const proto::Model model = ClearTraining(described);
  std::vector<const ModelType*> types;
  for (const ModelType& type : ModelTypes()) {
    if (!type.written_as.empty() || (type.family == "gpt") != (model.family() == "gpt")) continue;
    types.insert(type.name == preferred ? types.begin() : types.end(), &type);
  }
  std::optional<Candidate> nearest;
  for (const ModelType* const type : types) {
    std::optional<Candidate> candidate = TryType(*type, model, described.next_tokens());
    if (!candidate || (nearest && candidate->lost.size() >= nearest->lost.size())) continue;
    nearest = std::move(candidate);
    if (nearest->lost.empty()) return nearest->config;
  }
  const std::string where = absl::StrCat("graph \"", graph.name(), "\"");
  constexpr char kHint[] = "export a model of `oneflow model` or `oneflow import` that has none";
  if (!nearest) return InputError(where, "is of no type of transformers that is known", kHint);
  return InputError(where,
                    absl::StrCat("has ", absl::StrJoin(nearest->lost, " "), ", which ",
                                 nearest->config.model_type,
                                 ", the nearest type of transformers "
                                 "that is known here, has not"),
                    kHint);
}

FamilyFiles FindFiles(const HuggingFaceConfig& config) {
  FamilyFiles files = FindModelType(config.model_type)->files();
  files.blocks = config.model.layers();
  return files;
}

std::vector<std::string> FindOtherParts(const HuggingFaceConfig& config) {
  const FamilyFiles files = FindFiles(config);
  // A config.json that says none may lie beside files that have one, which transformers ignores.
  const int64_t least = files.block.empty() ? 0 : 1;
  return NameOtherParts(files, config.model.next_tokens(), std::max(config.further_blocks, least));
}

absl::StatusOr<std::string> FindNextTokens(const ModelFolder& folder, HuggingFaceConfig* config) {
  if (config->further_blocks == 0) return "its config.json has none";
  ASSIGN_OR_RETURN(std::string why,
                   WhyNoNextTokens(folder, FindFiles(*config), config->model.tied()));
  if (why.empty()) {
    HuggingFaceConfig with = *config;
    with.model.set_next_tokens(1);
    ASSIGN_OR_RETURN(const proto::Graph graph, BuildModelGraph(with, {}));
    const absl::Status mapped = MapModel(folder, with, graph).status();
    if (!mapped.ok()) why = std::string(mapped.message());
  }
  config->model.set_next_tokens(why.empty() ? 1 : 0);
  return why;
}

absl::StatusOr<HuggingFaceConfig> ChooseNextTokens(HuggingFaceConfig config,
                                                   const proto::Model& said, const std::string& why,
                                                   const std::string& folder, std::string* note) {
  proto::Model& model = config.model;
  if (said.next_tokens() > 0 && !why.empty()) {
    return InputError("--next_tokens=1", "is not in " + folder + ": " + why, "leave it out");
  }
  if (said.has_next_tokens()) model.set_next_tokens(said.next_tokens());
  if (model.next_tokens() > 0) {
    *note =
        absl::StrCat(folder, ": the block of next tokens, layer ", model.layers(),
                     ", is imported; it acts in training alone (--next_tokens=0 leaves it out)");
  } else if (config.further_blocks > 0 && !why.empty()) {
    *note = absl::StrCat(folder, ": the block of next tokens is not imported: ", why);
  }
  return config;
}

absl::StatusOr<std::vector<MappedVariable>> MapModel(const ModelFolder& folder,
                                                     const HuggingFaceConfig& config,
                                                     const proto::Graph& graph) {
  return MapVariables(folder, FindFiles(config), ListVariables(graph), config.model.vocab(),
                      config.model.tied(), FindOtherParts(config));
}

std::string FindType(const std::vector<MappedVariable>& variables) {
  int64_t elements[3] = {};
  for (const MappedVariable& variable : variables) {
    for (const MappedPart& part : variable.parts) {
      elements[static_cast<size_t>(ReadType(part))] += CountElements(part);
    }
  }
  const auto* const most = std::max_element(std::begin(elements), std::end(elements));
  return std::string(Name(static_cast<FileType>(most - elements)));
}

ModelNotes MakeNotes(const HuggingFaceConfig& config,
                     const std::vector<MappedVariable>& variables) {
  ModelNotes notes = {.model_type = config.model_type,
                      .dtype = FindType(variables),
                      .vocab = config.model.vocab(),
                      .positions = config.model.sequence(),
                      .end_ids = config.end_ids,
                      .begin_id = config.begin_id};
  const FamilyFiles files = FindFiles(config);
  for (const MappedVariable& variable : variables) {
    int64_t block = -1;
    FindParts(files, variable.name, &block);
    for (const MappedPart& part : variable.parts) {
      const std::string type(Name(ReadType(part)));
      if (type == notes.dtype) continue;
      notes.dtypes[FileName(files, TensorName(part.part, block))] = type;
    }
  }
  return notes;
}

}  // namespace oneflow
