// Removes the capacity of experts from programs that do not train: eval, generate and run drop no
// token. The queues of a mixture (route, dispatch, combine) are then in as many groups as devices
// split its experts, which annotate_model has written as `parts`. If nothing is dropped, runs
// change no result. So a program that is fed, perhaps with texts of other lengths, has runs of one
// sequence. Other programs keep their runs, because axes that split positions follow them.
//
//   route{groups = 8, capacity = 1.25, run = 64, parts = 2}  ->  route{groups = 2, parts = 2}
#include "compiler/passes/passes.h"

namespace oneflow {

void RemoveCapacity(Graph* graph, bool fed) {
  for (Op& op : graph->ops) {
    if (fed) op.attrs.erase("run");
    if (op.attrs.erase("capacity") > 0) op.attrs["groups"] = AttrInt(op, "parts", 1);
  }
}

}  // namespace oneflow
