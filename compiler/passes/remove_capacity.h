// Removes the capacity of experts from the programs that do not train: eval, generate and run drop
// no token. The queues of a mixture (route, dispatch, combine) are then in as many groups as
// devices split its experts, which annotate_model has written as `parts`. Where nothing is dropped
// runs change no result, so those of a program that is fed, perhaps texts of other lengths, are a
// sequence each; others keep theirs, which axes that split positions go by.
//
//   route{groups = 8, capacity = 1.25, run = 64, parts = 2}  ->  route{groups = 2, parts = 2}
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Before shapes are inferred: slots follow from the attributes.
void RemoveCapacity(Graph* graph, bool fed);

}  // namespace oneflow
