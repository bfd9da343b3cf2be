#include "oneflow_core/model/model.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/match.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/block_numbers.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/words.h"

namespace oneflow {
namespace {

proto::Model ParseNumbers(std::string_view text) {
  proto::Model model;
  CHECK(google::protobuf::TextFormat::ParseFromString(std::string(text), &model)) << text;
  return model;
}

const Family* NamedFamily(std::string_view name) {
  for (const Family& family : Families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

// The error of a preset that the family does not have; it names the nearest.
absl::Status UnknownPreset(const Family& family, const std::string& name) {
  const std::string where = "--preset=" + name;
  std::vector<std::string> presets;
  std::string all, begins;
  for (const Family& other : Families()) {
    for (const Preset& preset : other.presets) {
      if (other.name == family.name) {
        presets.push_back(preset.name);
        all += (all.empty() ? "" : ", ") + preset.name;
        // "gpt3" is short for gpt3-175b.
        if (begins.empty() && absl::StartsWithIgnoreCase(preset.name, name)) begins = preset.name;
      } else if (absl::EqualsIgnoreCase(preset.name, name)) {
        const std::string owner(other.name);
        return InputError(where, "is a preset of the family " + owner,
                          "write `oneflow model " + owner + " --preset=" + preset.name + "`");
      }
    }
  }
  std::string nearest = Nearest(name, presets);
  if (nearest.empty()) nearest = begins;
  return InputError(where, "no such preset",
                    nearest.empty() ? "use one of " + all : "did you mean " + nearest + "?");
}

// What is made of the graph of a model (add_adapters.h).
bool IsOfAnyFamily(const Row& row) { return row.name == "lora" || row.name == "train_only"; }

// Refuses a number that the family does not have.
absl::Status CheckOwn(const Family& family, const proto::Model& said, const proto::Model& own) {
  for (const Row& row : ModelRows()) {
    if (!HasField(row, said) || HasField(row, own) || IsOfAnyFamily(row)) continue;
    std::string owners;
    for (const Family& other : Families()) {
      if (!HasField(row, ParseNumbers(other.defaults))) continue;
      owners += (owners.empty() ? "`oneflow model " : " or ") + std::string(other.name);
    }
    return InputError("--" + std::string(row.name) + "=" + FieldText(row, said),
                      "is a flag of " + owners + "`, and the family is " + std::string(family.name),
                      "leave it out");
  }
  for (const proto::BlockPattern::Class& c : said.blocks().classes()) {
    RETURN_IF_ERROR(Annotate(CheckOwn(family, c.numbers(), own), "blocks " + c.name()));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const proto::Model& model) {
  return CheckFields(ModelRows(), model, [](const Row&) { return std::string("--"); });
}

// Calls `visit` with each variable and its number of elements.
template <typename Visit>
void ForVariables(const proto::Graph& graph, const Visit& visit) {
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    int64_t elements = 1;
    for (const auto& dim : op.shape().dim()) elements *= dim.size();
    visit(op, elements);
  }
}

}  // namespace

absl::StatusOr<proto::Model> CompleteModel(const proto::Model& said) {
  const Family* family = NamedFamily(said.family());
  if (family == nullptr) {
    std::vector<std::string> names;
    for (const Family& known : Families()) names.emplace_back(known.name);
    return InputError("family \"" + said.family() + "\"", "is not known", "use " + OrList(names));
  }
  proto::Model model = ParseNumbers(family->defaults);
  model.set_family(said.family());
  if (said.has_preset()) {
    const auto preset = std::find_if(family->presets.begin(), family->presets.end(),
                                     [&](const Preset& p) { return p.name == said.preset(); });
    if (preset == family->presets.end()) return UnknownPreset(*family, said.preset());
    CopyFields(ModelRows(), ParseNumbers(preset->numbers), &model);
    model.set_preset(said.preset());
  }
  RETURN_IF_ERROR(CheckOwn(*family, said, model));
  RETURN_IF_ERROR(CheckNumbers(said));
  CopyFields(ModelRows(), said, &model);
  RETURN_IF_ERROR(family->finish(said, &model));
  RETURN_IF_ERROR(CheckNumbers(model));  // what follows may be out of range, too
  return model;
}

proto::Model MakeModel(const std::string& text) {
  const absl::StatusOr<proto::Model> model = CompleteModel(ParseNumbers(text));
  CHECK(model.ok()) << model.status();
  return *model;
}

proto::Graph BuildModel(const proto::Model& complete, std::string name) {
  const Family* family = NamedFamily(complete.family());
  CHECK(family != nullptr) << complete.family();
  if (name.empty()) name = complete.has_preset() ? complete.preset() : complete.family();
  return family->build(complete, name);
}

std::set<std::string> ListMovedBiases(const proto::Graph& graph) {
  std::set<std::string> moved;
  for (const proto::Op& op : graph.op()) {
    const auto rate = op.attr().find("bias_rate");
    if (rate != op.attr().end() && rate->second.f() > 0) moved.insert(op.input(1));
  }
  return moved;
}

int64_t CountParameters(const proto::Graph& graph) {
  const std::set<std::string> moved = ListMovedBiases(graph);
  int64_t count = 0;
  ForVariables(graph, [&](const proto::Op& op, int64_t elements) {
    if (!moved.contains(op.name())) count += elements;
  });
  return count;
}

int64_t CountActiveParameters(const proto::Model& complete, const proto::Graph& graph) {
  int64_t count = CountParameters(graph);
  for (const TensorSplit& split : NamedFamily(complete.family())->splits) {
    if (!split.by_expert) continue;
    ForVariables(graph, [&](const proto::Op& op, int64_t elements) {
      if (op.name() != VariableName(split.variable, op.block())) return;
      // What predicts next tokens is like the last block.
      const proto::Model numbers =
          BlockNumbers(complete, op.has_block() ? op.block() : complete.layers() - 1);
      count -= elements / numbers.experts() * (numbers.experts() - numbers.experts_per_token());
    });
  }
  return count;
}

}  // namespace oneflow
