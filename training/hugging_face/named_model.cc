#include "training/hugging_face/named_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/public_models.h"
#include "training/hugging_face/read_architecture.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// Numbers that may be said beside a configuration: all others are what it is read for.
constexpr std::string_view kSaidBeside[] = {
    "sequence",  "vocab",          "dropout",      "attention",
    "masks",     "slots",          "slot_groups",  "capacity",
    "bias_rate", "aux_loss_coeff", "z_loss_coeff", "routed_positions",
    "lora",      "train_only",     "next_tokens",  "next_tokens_coeff"};

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// True of a file that begins as an object of JSON does.
bool IsJson(const std::string& path) {
  if (!IsFile(path)) return false;
  if (path.ends_with(".json")) return true;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return false;
  const size_t first = text->find_first_not_of(" \t\r\n");
  return first != text->npos && (*text)[first] == '{';
}

bool IsWeights(const std::string& path) {
  constexpr std::string_view kEnds[] = {".safetensors", ".bin", ".gguf", ".pt", ".pth"};
  return IsFile(path) && std::any_of(std::begin(kEnds), std::end(kEnds),
                                     [&](std::string_view end) { return path.ends_with(end); });
}

absl::Status CheckSaid(const proto::Model& said, const std::string& origin) {
  for (const Row& row : ModelRows()) {
    if (!HasField(row, said) || row.name == "family") continue;
    if (std::find(std::begin(kSaidBeside), std::end(kSaidBeside), row.name) !=
        std::end(kSaidBeside)) {
      continue;
    }
    return InputError(absl::StrCat("--", ToAbsl(row.name), "=", FieldText(row, said)),
                      absl::StrCat("is a number of the model that ", origin, " says"),
                      "leave it out, or change it in the file");
  }
  return absl::OkStatus();
}

// `model`, in which what is said counts.
absl::StatusOr<proto::Model> WithSaid(proto::Model model, const proto::Model& said) {
  for (const Row& row : ModelRows()) {
    if (HasField(row, said) && row.name != "family") CopyField(row, said, &model);
  }
  return CompleteModel(model);
}

// The preset of a model, but for its sequence and vocabulary; its type where no preset has it.
std::string NameModel(const proto::Model& model, const std::string& type) {
  for (const Family& family : Families()) {
    if (family.name != model.family()) continue;
    for (const Preset& preset : family.presets) {
      proto::Model said;
      said.set_family(model.family());
      said.set_preset(preset.name);
      absl::StatusOr<proto::Model> known = CompleteModel(said);
      if (!known.ok() || known->sequence() < 1024) continue;  // of tests
      known->clear_preset();
      known->set_sequence(model.sequence());
      known->set_vocab(model.vocab());
      if (ListDifferences(*known, model).empty()) return preset.name;
    }
  }
  return type;
}

absl::StatusOr<NamedModel> MakePreset(const PublicModel& found, const proto::Model& said) {
  proto::Model named;
  named.set_family(found.family);
  named.set_preset(found.preset);
  ASSIGN_OR_RETURN(const proto::Model published, CompleteModel(named));
  NamedModel result{
      .name = found.preset, .origin = "preset " + found.preset, .positions = published.sequence()};
  ASSIGN_OR_RETURN(result.model, WithSaid(named, said));
  const proto::Graph graph = BuildModel(result.model);
  result.parameters = CountParameters(graph);
  ASSIGN_OR_RETURN(result.graph, AdaptGraph(graph, said));
  return result;
}

absl::StatusOr<NamedModel> MakeExact(const proto::Model& read, const std::string& type,
                                     const std::string& origin, const proto::Model& said) {
  NamedModel result{.origin = origin, .positions = read.sequence()};
  ASSIGN_OR_RETURN(const proto::Model model, WithSaid(read, {}));
  result.name = NameModel(model, type);
  ASSIGN_OR_RETURN(result.model, WithSaid(model, said));
  const proto::Graph graph = BuildModel(result.model, result.name);
  result.parameters = CountParameters(graph);
  ASSIGN_OR_RETURN(result.graph, AdaptGraph(graph, said));
  return result;
}

// Why a model is refused: each difference is a line.
absl::Status RefuseDifferences(const ReadArchitectureResult& read, const NearestModel& nearest,
                               const std::string& origin) {
  const std::vector<std::string> lines = DifferenceLines(nearest.differences);
  return InputError(
      origin,
      absl::StrCat("is of type ", read.type, ", which differs from what can be built in ",
                   lines.size(), lines.size() == 1 ? " way" : " ways",
                   " (theirs minus what is nearest here), and --approximate plans the nearest "
                   "model, which is not trained:\n  ",
                   absl::StrJoin(lines, "\n  ")));
}

absl::StatusOr<NamedModel> MakeFromConfig(const std::string& text, const std::string& origin,
                                          const std::string& short_name,
                                          const NamedModelOptions& options) {
  RETURN_IF_ERROR(CheckSaid(options.said, origin));
  const absl::StatusOr<HuggingFaceConfig> config = ParseHuggingFaceConfig(text, origin);
  if (config.ok()) {
    proto::Model model = config->model;
    ClearField(*FindRow(ModelRows(), "dropout"), &model);  // as import does
    return MakeExact(model, config->model_type, origin, options.said);
  }
  ASSIGN_OR_RETURN(ReadArchitectureResult read, ReadArchitecture(text, origin));
  Architecture& theirs = read.architecture;
  const int64_t positions = theirs.sequence;
  if (options.said.has_sequence()) theirs.sequence = options.said.sequence();
  if (options.said.has_vocab()) theirs.vocab = options.said.vocab();
  ASSIGN_OR_RETURN(const NearestModel nearest, FindNearestModel(theirs, origin));
  const std::string name = short_name.empty() ? read.type : short_name;
  if (nearest.differences.empty()) {
    // A type of another name that computes the same; not one that is refused for another reason.
    if (IsHuggingFaceFamily(read.type)) return config.status();
    ASSIGN_OR_RETURN(NamedModel exact, MakeExact(nearest.model, name, origin, options.said));
    exact.positions = positions;
    return exact;
  }
  if (!options.approximate) return RefuseDifferences(read, nearest, origin);
  NamedModel result{.name = name,
                    .origin = origin,
                    .positions = positions,
                    .differences = nearest.differences,
                    .parameters = nearest.theirs.parameters};
  NearestModel trained = nearest;
  ASSIGN_OR_RETURN(trained.model, WithSaid(nearest.model, options.said));
  result.model = trained.model;
  ASSIGN_OR_RETURN(result.graph, AdaptGraph(BuildNearestGraph(trained, name), options.said));
  return result;
}

// A file of none of the kinds that are taken.
absl::Status RefuseName(const std::string& text) {
  constexpr char kKinds[] =
      "give a graph of `oneflow model`, a config.json, a folder with one, or the name of a preset "
      "(`oneflow model --help`)";
  if (IsFile(text)) {
    if (IsWeights(text)) {
      return InputError(text, "is a file of weights", "give the config.json beside it");
    }
    return InputError(text, "is a file that is no JSON", kKinds);
  }
  const std::string nearest = NearestPublicModel(text);
  return InputError(text, "is no file, no folder, and no name of a model that is known",
                    nearest.empty() ? kKinds : "did you mean " + nearest + "?");
}

}  // namespace

bool NamesModel(const std::string& text) {
  if (IsFolder(text) || IsJson(text) || IsWeights(text)) return true;
  return !PathExists(text) &&
         (FindPublicModel(text).has_value() || FindPublicConfig(text) != nullptr);
}

absl::StatusOr<NamedModel> FindNamedModel(const std::string& text,
                                          const NamedModelOptions& options) {
  if (IsFolder(text)) {
    ASSIGN_OR_RETURN(const std::string folder, FindModel(text));
    const std::string path = folder + "/config.json";
    ASSIGN_OR_RETURN(const std::string config, ReadFile(path));
    return MakeFromConfig(config, path, "", options);
  }
  if (IsJson(text)) {
    ASSIGN_OR_RETURN(const std::string config, ReadFile(text));
    return MakeFromConfig(config, text, "", options);
  }
  if (PathExists(text)) return RefuseName(text);
  if (const std::optional<PublicModel> preset = FindPublicModel(text)) {
    return MakePreset(*preset, options.said);
  }
  if (const PublicConfig* config = FindPublicConfig(text)) {
    const std::string name(config->name);
    return MakeFromConfig(std::string(config->text), name, name, options);
  }
  return RefuseName(text);
}

}  // namespace oneflow
