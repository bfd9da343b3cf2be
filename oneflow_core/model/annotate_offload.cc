#include "oneflow_core/model/annotate_offload.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "oneflow_core/op/moved_bias.h"

namespace oneflow {

void AnnotateOffload(const Offload& offload, Graph* graph) {
  std::vector<std::string> words;
  if (offload.states) words.emplace_back("states");
  if (offload.weights) words.emplace_back("weights");
  if (offload.update_on_host) words.emplace_back("update");
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

}  // namespace oneflow
