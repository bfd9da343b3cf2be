#include "tools/oneflow/model/model_plan.h"

#include <set>
#include <string>

#include "oneflow_core/graph/graph_proto.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {

proto::Plan MakeModelPlan(const proto::Graph& graph) {
  proto::Plan plan;
  plan.set_model(graph.name());
  plan.set_fingerprint("imported");
  *plan.mutable_graph() = graph;
  plan.mutable_recipe()->set_micro_batches(1);
  std::set<std::string> frozen;
  for (const proto::Op& op : graph.op()) {
    if (IsFrozen(op)) frozen.insert(op.name());
  }
  for (const WantedVariable& wanted : ListVariables(graph)) {
    proto::Variable& variable = *plan.add_variable();
    variable.set_name(wanted.name);
    variable.set_dtype(proto::F32);
    for (const int64_t size : wanted.dims) variable.mutable_layout()->add_dim(size);
    variable.set_read_only(frozen.contains(wanted.name));
    variable.set_frozen(graph.has_base() && frozen.contains(wanted.name));
  }
  return plan;
}

}  // namespace oneflow
