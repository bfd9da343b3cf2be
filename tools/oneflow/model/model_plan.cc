#include "tools/oneflow/model/model_plan.h"

#include <utility>

namespace oneflow {

std::vector<WantedVariable> ListVariables(const proto::Graph& graph) {
  std::vector<WantedVariable> variables;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    Dims dims;
    for (const auto& dim : op.shape().dim()) dims.push_back(dim.size());
    variables.push_back({op.name(), std::move(dims)});
  }
  return variables;
}

proto::Plan MakeModelPlan(const proto::Graph& graph) {
  proto::Plan plan;
  plan.set_model(graph.name());
  plan.set_fingerprint("imported");
  *plan.mutable_graph() = graph;
  plan.mutable_recipe()->set_micro_batches(1);
  for (const WantedVariable& wanted : ListVariables(graph)) {
    proto::Variable& variable = *plan.add_variable();
    variable.set_name(wanted.name);
    variable.set_dtype(proto::F32);
    for (const int64_t size : wanted.dims) variable.mutable_layout()->add_dim(size);
  }
  return plan;
}

}  // namespace oneflow
