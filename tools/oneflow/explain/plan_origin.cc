#include "tools/oneflow/explain/plan_origin.h"

#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/oneflow/cli/flag_table.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/named_graph.h"
#include "tools/oneflow/cli/shell_word.h"
#include "tools/oneflow/explain/recipe_file.h"
#include "training/hugging_face/named_model.h"

namespace oneflow {
namespace {

std::string FlagWord(std::string_view name, std::string_view value) {
  return ShellWord(absl::StrCat("--", ToAbsl(name), "=", ToAbsl(value)));
}

// The flags that are there and do not have their defaults.
void AddChosen(std::span<const Row> rows, const google::protobuf::Message& message,
               const google::protobuf::Message& defaults, std::vector<std::string>* words) {
  for (const Row& row : rows) {
    if (!row.is_flag || !HasField(row, message) || (row.form != nullptr && row.form->is_file)) {
      continue;
    }
    const std::string text = FieldText(row, message);
    if (text != FieldText(row, defaults)) words->push_back(FlagWord(row.name, text));
  }
}

std::string CommandOfFlags(const Arguments& args) {
  std::vector<std::string> words = {"oneflow", "compile"};
  for (const auto& [name, value] : args.flags) {
    const bool own = name == "out" || name == "format" || args.of_recipe.contains(name);
    if (!own && FindFlag(verbs::kCompile, name) != nullptr) words.push_back(FlagWord(name, value));
  }
  return absl::StrJoin(words, " ");
}

std::string CommandOfPlan(const proto::Plan& plan) {
  std::vector<std::string> words = {"oneflow", "compile", FlagWord("graph", FLAGS_plan),
                                    FlagWord("cluster", FLAGS_plan)};
  AddChosen(RecipeRows(), plan.recipe(), WithDefaults({}), &words);
  proto::Optimizer defaults;
  SetDefaults(OptimizerRows(), &defaults);
  AddChosen(OptimizerRows(), plan.optimizer(), defaults, &words);
  return absl::StrJoin(words, " ");
}

}  // namespace

absl::StatusOr<proto::Model> ModelFromFlags(const Arguments& args) {
  if (FLAGS_graph.empty()) return args.file.model();
  if (NamesModel(FLAGS_graph)) return SayNamedModel(args, FLAGS_graph);
  ASSIGN_OR_RETURN(proto::Model model, TrainedFromFlags(args));
  model.set_graph(FLAGS_graph);
  return model;
}

absl::StatusOr<PlanOrigin> FindPlanOrigin(const Arguments& args, const proto::Plan& plan) {
  PlanOrigin origin;
  proto::Model model;
  if (args.Given("plan")) {
    origin.command = CommandOfPlan(plan);
    model.set_graph(FLAGS_plan);
  } else {
    origin.command = CommandOfFlags(args);
    absl::StatusOr<proto::Model> said = ModelFromFlags(args);
    // A model that is approximated has no recipe.
    if (!said.ok()) return origin;
    model = *std::move(said);
  }
  origin.recipe =
      RecipeFileText("Made by oneflow explain.",
                     MakeRecipeFile(plan, model, args.Given("plan") ? FLAGS_plan : FLAGS_cluster));
  return origin;
}

}  // namespace oneflow
