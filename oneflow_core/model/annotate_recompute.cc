#include "oneflow_core/model/annotate_recompute.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// One of the ops that unfused attention consists of, from queries, keys and values to its result.
bool IsOfUnfusedAttention(const Graph& graph, const Op& op) {
  constexpr std::string_view kKinds[] = {"split_heads", "batch_matmul", "causal_softmax",
                                         "swap_dims"};
  const OpDef* def = FindOpDef(op);
  return std::find(std::begin(kKinds), std::end(kKinds), op.kind) != std::end(kKinds) ||
         (def != nullptr && def->random && graph.Producer(op.inputs[0]).kind == "causal_softmax");
}

// True for an op that makes scores, probabilities and weighted values in one kernel, and true of
// what `selective` names where the policy is that.
bool IsRecomputedAlone(const Op& op, bool selective) {
  const OpDef* def = FindOpDef(op);
  return def != nullptr && (def->own_products || (selective && def->selective));
}

// By block, the name of the last op of unfused attention: all of its ops are one scope.
std::map<int, std::string> FindUnfusedAttention(const Graph& graph) {
  std::map<int, std::string> last;
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && IsOfUnfusedAttention(graph, op)) last[op.block] = op.name;
  }
  return last;
}

}  // namespace

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
  const std::map<int, std::string> unfused = FindUnfusedAttention(*graph);
  bool found = false;
  for (Op& op : graph->ops) {
    if (op.block < 0 || HasOwnShape(op.kind)) continue;
    found = true;
    if (!op.recompute.empty()) continue;  // the user's own
    if (parsed.ops == "full") {
      op.recompute = absl::StrCat("h.", op.block);
    } else if (IsOfUnfusedAttention(*graph, op)) {
      op.recompute = unfused.at(op.block);
    } else if (IsRecomputedAlone(op, parsed.ops == "selective")) {
      op.recompute = op.name;
    }
  }
  if (found) return absl::OkStatus();
  return InputError("recompute " + parsed.ops, "\"" + graph->name + "\" has no blocks",
                    "write `recompute: \"name\"` on the graph's ops");
}

}  // namespace oneflow
