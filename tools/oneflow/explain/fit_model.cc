#include "tools/oneflow/explain/fit_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/fit/defaults.h"
#include "planning/search/largest.h"
#include "tools/oneflow/cli/plan_file.h"
#include "tools/oneflow/cli/shell_word.h"

namespace oneflow {
namespace {

absl::StatusOr<GraphSource> BuildSource(proto::Model said, int64_t sequence) {
  said.set_sequence(sequence);
  ASSIGN_OR_RETURN(const proto::Model model, CompleteModel(said));
  GraphSource source{BuildModel(model), "", {}};
  FillBlocks(&source.graph);
  return source;
}

// The model of a preset; without a family where there is none of this name.
proto::Model FindPreset(const std::string& name) {
  proto::Model said;
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) {
      if (preset.name != name) continue;
      said.set_family(std::string(family.name));
      said.set_preset(preset.name);
    }
  }
  return said;
}

absl::StatusOr<FitModel> FromPreset(const proto::Model& said, int64_t sequence) {
  FitModel model{.name = said.preset()};
  ASSIGN_OR_RETURN(const proto::Model complete, CompleteModel(said));
  if (sequence == 0) {
    sequence = FindUsualSequence(complete.sequence());
    model.sequence_note =
        complete.sequence() == sequence
            ? "default: the model's length"
            : absl::StrCat("default length: the model has ", DigitsText(complete.sequence()));
  }
  model.with_sequence = [said](int64_t length) { return BuildSource(said, length); };
  ASSIGN_OR_RETURN(model.source, model.with_sequence(sequence));
  model.flags = [name = said.preset()](int64_t length) {
    return absl::StrCat("--graph=", name, " --sequence=", length);
  };
  return model;
}

absl::StatusOr<FitModel> FromGraph(const std::string& path, int64_t sequence) {
  FitModel model;
  if (IsPlanFile(path)) {
    ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(path));
    model.source = {plan.graph(), path, {}};
  } else {
    ASSIGN_OR_RETURN(model.source, ReadGraphFile(path));
  }
  model.name = model.source.graph.name();
  const int64_t length = FindSequence(model.source.graph);
  if (sequence != 0 && sequence != length) {
    return InputError(absl::StrCat("--sequence=", sequence),
                      absl::StrCat(path, " is a graph of sequences of ", length, " tokens"),
                      "leave it out, or give the model by its name or its config.json");
  }
  const proto::Model said = FindPresetModel(model.source.graph);
  if (said.has_family()) {
    model.with_sequence = [said](int64_t other) { return BuildSource(said, other); };
  }
  model.flags = [word = ShellWord("--graph=" + path), length,
                 preset = said.preset()](int64_t other) {
    return other == length ? word : absl::StrCat("--graph=", preset, " --sequence=", other);
  };
  return model;
}

}  // namespace

absl::StatusOr<FitModel> FindFitModel(const std::string& word, int64_t sequence) {
  std::error_code ignored;
  const proto::Model preset = FindPreset(word);
  const bool file = std::filesystem::exists(word, ignored);
  ASSIGN_OR_RETURN(FitModel model, preset.has_family() && !file ? FromPreset(preset, sequence)
                                                                : FromGraph(word, sequence));
  if (model.parameters == 0) model.parameters = CountParameters(model.source.graph);
  return model;
}

}  // namespace oneflow
