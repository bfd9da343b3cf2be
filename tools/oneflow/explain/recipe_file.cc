#include "tools/oneflow/explain/recipe_file.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"

namespace oneflow {

proto::RecipeFile MakeRecipeFile(const proto::Plan& plan, const proto::Model& model,
                                 const std::string& cluster) {
  proto::RecipeFile file;
  *file.mutable_model() = model;
  *file.mutable_recipe() = plan.recipe();
  *file.mutable_run()->mutable_optimizer() = plan.optimizer();
  file.set_cluster(cluster);
  return file;
}

std::string RecipeFileText(const std::string& comment, const proto::RecipeFile& file) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(file, &text);
  return absl::StrCat("# ", comment, "\n", text);
}

}  // namespace oneflow
