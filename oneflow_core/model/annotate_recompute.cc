#include "oneflow_core/model/annotate_recompute.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/gpt_block.h"

namespace oneflow {

absl::Status AnnotateRecompute(Graph* graph, std::string_view policy) {
  if (policy.empty() || policy == "none") return absl::OkStatus();
  if (policy != "full" && policy != "selective") {
    return InputError("recompute", absl::StrCat("\"", ToAbsl(policy), "\" is not known"),
                      "use none, selective or full");
  }
  constexpr std::string_view kSelected[] = {"causal_attention", "layer_norm", "gelu", "dropout"};
  bool found = false;
  for (Op& op : graph->ops) {
    std::string_view rest;
    const int block = BlockOf(op.name, &rest);
    if (block < 0 || HasOwnShape(op.kind)) continue;
    found = true;
    if (!op.recompute.empty()) continue;  // the user's own
    if (policy == "full") {
      op.recompute = absl::StrCat("h.", block);
    } else if (std::find(std::begin(kSelected), std::end(kSelected), op.kind) !=
               std::end(kSelected)) {
      op.recompute = op.name;
    }
  }
  if (found) return absl::OkStatus();
  return InputError("recompute " + std::string(policy),
                    "\"" + graph->name + "\" has no blocks h.0, h.1, ...",
                    "write `recompute: \"name\"` on the graph's ops");
}

}  // namespace oneflow
