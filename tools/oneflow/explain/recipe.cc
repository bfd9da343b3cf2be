// oneflow recipe: prints the complete recipe that made a plan.
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/read_plan.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/recipe_file.h"

namespace oneflow {
namespace {

absl::Status PrintRecipe(const Arguments&) {
  if (FLAGS_plan.empty()) return InputError("--plan", "is missing", "write --plan=gpt.plan");
  ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(FLAGS_plan));
  proto::Model model;
  model.set_graph(FLAGS_plan);
  const proto::RecipeFile file = MakeRecipeFile(plan, model, FLAGS_plan);
  const std::string text = RecipeFileText(
      absl::StrCat("Made ", FLAGS_plan, ", whose graph and cluster it names."), file);
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
  return {verbs::kRecipe, "print the complete recipe that made a plan",
          "oneflow recipe --plan=gpt.plan --out=gpt.recipe\n", PrintRecipe};
}

}  // namespace oneflow
