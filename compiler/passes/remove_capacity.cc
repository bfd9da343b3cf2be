#include "compiler/passes/remove_capacity.h"

namespace oneflow {

void RemoveCapacity(Graph* graph, bool fed) {
  for (Op& op : graph->ops) {
    if (fed) op.attrs.erase("run");
    if (op.attrs.erase("capacity") > 0) op.attrs["groups"] = AttrInt(op, "parts", 1);
  }
}

}  // namespace oneflow
