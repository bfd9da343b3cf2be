#include "oneflow_core/model/annotate_offload.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/op/moved_bias.h"

namespace oneflow {

void AnnotateOffload(const proto::Recipe& recipe, Graph* graph) {
  std::vector<std::string> words;
  if (recipe.offload().states()) words.emplace_back("states");
  if (recipe.offload().weights()) words.emplace_back("weights");
  if (recipe.update_on() == proto::UPDATE_ON_HOST) words.emplace_back("update");
  if (words.empty()) return;
  std::set<OpId> moved;  // by a rule, without states
  for (const Op& op : graph->ops) {
    if (const TensorId bias = FindMovedBias(op); bias >= 0) {
      moved.insert(graph->tensors[bias].producer);
    }
  }
  for (Op& op : graph->ops) {
    if (op.kind != "variable" || moved.contains(graph->tensors[op.outputs[0]].producer)) continue;
    op.attrs.emplace("host", absl::StrJoin(words, ","));
  }
}

VariablesOnHost FindOnHost(const Graph& graph) {
  VariablesOnHost found;
  for (const Op& op : graph.ops) {
    if (op.kind != "variable") continue;
    const std::string host = AttrString(op, "host");
    for (const absl::string_view word : absl::StrSplit(host, ',')) {
      found.states |= word == "states";
      found.weights |= word == "weights";
      found.update |= word == "update";
    }
  }
  return found;
}

bool RestsOnHost(const proto::Recipe& recipe, const Graph& graph) {
  return recipe.offload().has_activations() || FindOnHost(graph).any();
}

}  // namespace oneflow
