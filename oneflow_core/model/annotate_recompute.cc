#include "oneflow_core/model/annotate_recompute.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/gpt_block.h"

namespace oneflow {

absl::StatusOr<RecomputePolicy> ParseRecompute(std::string_view policy) {
  RecomputePolicy result;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(policy), ',', absl::SkipEmpty())) {
    const std::string word(part);
    if (word == "gather") {
      result.gather = true;
    } else if (word != "none" && word != "attention" && word != "selective" && word != "full") {
      return InputError("recompute", absl::StrCat("\"", part, "\" is not known"),
                        "use none, attention, selective or full, and gather beside it");
    } else if (!result.ops.empty()) {
      return InputError("recompute", absl::StrCat(result.ops, " and ", part, " contradict"),
                        "choose one of none, attention, selective and full");
    } else {
      result.ops = word;
    }
  }
  if (result.ops.empty()) result.ops = "none";
  return result;
}

absl::Status AnnotateRecompute(Graph* graph, std::string_view policy) {
  ASSIGN_OR_RETURN(const RecomputePolicy parsed, ParseRecompute(policy));
  if (parsed.ops == "none") return absl::OkStatus();
  constexpr std::string_view kSelected[] = {"causal_attention", "layer_norm", "gelu", "dropout"};
  bool found = false;
  for (Op& op : graph->ops) {
    std::string_view rest;
    const int block = ParseBlock(op.name, &rest);
    if (block < 0 || HasOwnShape(op.kind)) continue;
    found = true;
    if (!op.recompute.empty()) continue;  // the user's own
    if (parsed.ops == "full") {
      op.recompute = absl::StrCat("h.", block);
    } else if (rest == "attn.core" || rest.starts_with("attn.core.")) {
      op.recompute = absl::StrCat("h.", block, ".attn.core");
    } else if (parsed.ops == "selective" && std::find(std::begin(kSelected), std::end(kSelected),
                                                      op.kind) != std::end(kSelected)) {
      op.recompute = op.name;
    }
  }
  if (found) return absl::OkStatus();
  return InputError("recompute " + parsed.ops,
                    "\"" + graph->name + "\" has no blocks h.0, h.1, ...",
                    "write `recompute: \"name\"` on the graph's ops");
}

}  // namespace oneflow
