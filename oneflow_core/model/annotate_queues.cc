#include "oneflow_core/model/annotate_queues.h"

#include <algorithm>
#include <string_view>

#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

bool MayHave(const Op& op, std::string_view attr) {
  const OpDef* def = FindOpDef(op);
  return def != nullptr && std::any_of(def->attrs.begin(), def->attrs.end(),
                                       [&](const AttrDef& a) { return a.name == attr; });
}

}  // namespace

bool HasGroups(const Op& op) { return MayHave(op, "groups"); }

void PriceQueues(double imbalance, Graph* graph) {
  const auto open = [](const Op& op) {
    return HasGroups(op) && AttrInt(op, "parts", 1) > 1 && AttrDouble(op, "capacity") == 0;
  };
  if (std::none_of(graph->ops.begin(), graph->ops.end(), open)) return;
  for (Op& op : graph->ops) {
    if (MayHave(op, "imbalance")) op.attrs["imbalance"] = imbalance;
    if (MayHave(op, "load")) op.attrs["load"] = BusiestLoad(imbalance);
  }
}

}  // namespace oneflow
