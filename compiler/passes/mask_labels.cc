// Makes losses means over the labels that count: with --masked_labels, for data of which some
// labels do not (chats: those of the user's turns, and padding).
//
//   softmax_cross_entropy            ignore_negative, in place of unlabelled
//
// load_tokens gives such a label as -1. The mean is over the labels of the global batch: decompose
// counts them, divide_by_count divides the loss, add_optimizer the gradients. With --documents
// give_positions does the same.
#include "compiler/passes/passes.h"

namespace oneflow {

void MaskLabels(Graph* graph) {
  for (Op& op : graph->ops) {
    if (op.kind != "softmax_cross_entropy") continue;
    op.attrs["ignore_negative"] = true;
    op.attrs.erase("unlabelled");
  }
}

}  // namespace oneflow
