// oneflow recipe: prints the complete recipe that made a plan, or what flags say as a recipe.
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/read_plan.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/recipe_file.h"

namespace oneflow {
namespace {

struct Commented {
  std::string comment;
  proto::RecipeFile file;
};

absl::StatusOr<Commented> RecipeAsked(const Arguments& args) {
  if (!FLAGS_plan.empty()) {
    ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(FLAGS_plan));
    proto::Model model;
    model.set_graph(FLAGS_plan);
    return Commented{absl::StrCat("Made ", FLAGS_plan, ", whose graph and cluster it names."),
                     MakeRecipeFile(plan, model, FLAGS_plan)};
  }
  Commented said{"What flags say; all else is chosen, or has its default.", args.file};
  ASSIGN_OR_RETURN(*said.file.mutable_recipe(), RecipeSaid(args));
  RETURN_IF_ERROR(SetGiven(OptimizerRows(), args, said.file.mutable_run()->mutable_optimizer()));
  if (said.file.run().optimizer().ByteSizeLong() == 0) said.file.mutable_run()->clear_optimizer();
  if (said.file.run().ByteSizeLong() == 0) said.file.clear_run();
  if (said.file.model().ByteSizeLong() == 0) said.file.clear_model();
  if (said.file.ByteSizeLong() != 0 && !args.flags.empty()) return said;
  return InputError("--plan", "is missing",
                    "write --plan=gpt.plan, or what a recipe is to say, as --mesh=data=2");
}

absl::Status PrintRecipe(const Arguments& args) {
  ASSIGN_OR_RETURN(const Commented asked, RecipeAsked(args));
  const auto& [comment, file] = asked;
  const std::string text = RecipeFileText(comment, file);
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(file, &json, options).ok()) {
    return absl::InternalError("a recipe has no JSON");
  }
  const auto parsed = nlohmann::ordered_json::parse(json);
  if (FLAGS_out.empty()) return Print(text, parsed, 1);
  return Annotate(WriteFile(FLAGS_out, FLAGS_format == "json" ? JsonText(parsed, 1) + "\n" : text),
                  "--out");
}

}  // namespace

Verb RecipeVerb() {
  return {verbs::kRecipe, "print the complete recipe that made a plan, or what flags say",
          "oneflow recipe --plan=gpt.plan --out=gpt.recipe\n"
          "oneflow recipe --mesh=data=2 --batch=16 --out=data.recipe\n", PrintRecipe};
}

}  // namespace oneflow
