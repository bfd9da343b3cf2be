#include "oneflow_core/model/families.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/gemma.h"
#include "oneflow_core/model/glm.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/gpt_oss.h"
#include "oneflow_core/model/llama.h"
#include "oneflow_core/model/olmo.h"

namespace oneflow {

const std::vector<Family>& Families() {
  static const auto* families = new std::vector<Family>{
      GptFamily(), LlamaFamily(), GemmaFamily(), GptOssFamily(), OlmoFamily(), GlmFamily()};
  return *families;
}

absl::StatusOr<const Family*> FindFamily(const Graph& graph) {
  std::string names;
  for (const Family& family : Families()) {
    const bool has_all =
        !family.known_by.empty() &&
        std::all_of(family.known_by.begin(), family.known_by.end(), [&](std::string_view name) {
          const Op* op = graph.FindOp(name);
          return op != nullptr && op->kind == "variable";
        });
    if (graph.family.empty() ? has_all : graph.family == family.name) return &family;
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  if (graph.family.empty()) return nullptr;
  return InputError("graph \"" + graph.name + "\"", "is of family \"" + graph.family + "\"",
                    "the families are " + names + "; leave the field out for another model");
}

}  // namespace oneflow
