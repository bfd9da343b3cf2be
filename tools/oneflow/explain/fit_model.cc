#include "tools/oneflow/explain/fit_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/fit/defaults.h"
#include "planning/search/largest.h"
#include "tools/oneflow/cli/plan_file.h"
#include "tools/oneflow/cli/shell_word.h"
#include "training/hugging_face/named_model.h"

namespace oneflow {
namespace {

absl::StatusOr<proto::Model> WithSequence(proto::Model said, int64_t sequence) {
  RETURN_IF_ERROR(SetField(*FindRow(ModelRows(), "sequence"), absl::StrCat(sequence), &said));
  return said;
}

// The flags of a model with a name.
std::string NameFlags(const std::string& word, int64_t sequence, bool approximate) {
  return absl::StrCat(ShellWord("--graph=" + word), " --sequence=", sequence,
                      approximate ? " --approximate" : "");
}

absl::StatusOr<FitModel> FromName(const std::string& word, int64_t sequence, bool approximate,
                                  const proto::Model& trained) {
  const auto find = [word, approximate, trained](int64_t length) -> absl::StatusOr<NamedModel> {
    NamedModelOptions options{.said = trained, .approximate = approximate};
    if (length > 0) {
      ASSIGN_OR_RETURN(options.said, WithSequence(trained, length));
    }
    return FindNamedModel(word, options);
  };
  ASSIGN_OR_RETURN(NamedModel named, find(sequence));
  FitModel model;
  if (sequence == 0) {
    const int64_t usual = FindUsualSequence(named.positions);
    model.sequence_note = usual == named.positions ? "default length: the model's"
                                                   : absl::StrCat("default length: the model has ",
                                                                  DigitsText(named.positions));
    if (usual > 0 && usual != FindSequence(named.graph)) {
      ASSIGN_OR_RETURN(named, find(usual));
    }
  }
  model.with_sequence = [find](int64_t length) -> absl::StatusOr<GraphSource> {
    ASSIGN_OR_RETURN(NamedModel other, find(length));
    return GraphSource{std::move(other.graph), "", {}};
  };
  const bool differs = !named.differences.empty();
  model.flags = [word, differs](int64_t length) { return NameFlags(word, length, differs); };
  model.name = named.name;
  model.parameters = named.parameters;
  model.differences = DifferenceLines(named.differences);
  model.source = {std::move(named.graph), word, {}};
  FillBlocks(&model.source.graph);
  return model;
}

absl::StatusOr<FitModel> FromGraph(const std::string& path, int64_t sequence,
                                   const proto::Model& trained) {
  FitModel model;
  if (IsPlanFile(path)) {
    ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(path));
    model.source = {plan.graph(), path, {}};
  } else {
    ASSIGN_OR_RETURN(model.source, ReadGraphFile(path));
  }
  ASSIGN_OR_RETURN(model.source.graph, AdaptGraph(std::move(model.source.graph), trained));
  model.name = model.source.graph.name();
  model.parameters = CountParameters(model.source.graph);
  for (const std::string& difference : model.source.graph.approximates()) {
    model.differences.push_back(difference);
  }
  const int64_t length = FindSequence(model.source.graph);
  if (sequence != 0 && sequence != length) {
    return InputError(absl::StrCat("--sequence=", sequence),
                      absl::StrCat(path, " is a graph of sequences of ", length, " tokens"),
                      "leave it out, or give the model by its name or its config.json");
  }
  const proto::Model preset = FindPresetModel(model.source.graph);
  if (preset.has_family()) {
    model.with_sequence =
        [preset, adapted = model.source.graph](int64_t other) -> absl::StatusOr<GraphSource> {
      ASSIGN_OR_RETURN(const proto::Model said, WithSequence(preset, other));
      ASSIGN_OR_RETURN(const proto::Model complete, CompleteModel(said));
      ASSIGN_OR_RETURN(proto::Graph graph, AdaptLike(adapted, BuildModel(complete)));
      return GraphSource{std::move(graph), "", {}};
    };
  }
  model.flags = [word = ShellWord("--graph=" + path), length,
                 name = preset.preset()](int64_t other) {
    return other == length ? word : NameFlags(name, other, /*approximate=*/false);
  };
  return model;
}

}  // namespace

absl::StatusOr<FitModel> FindFitModel(const std::string& word, int64_t sequence, bool approximate,
                                      const proto::Model& trained) {
  std::error_code ignored;
  const bool named = NamesModel(word) || !std::filesystem::exists(word, ignored);
  return named ? FromName(word, sequence, approximate, trained)
               : FromGraph(word, sequence, trained);
}

}  // namespace oneflow
