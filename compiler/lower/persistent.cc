#include "compiler/lower/persistent.h"

#include <glog/logging.h>

#include <algorithm>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "compiler/lower/registers.h"
#include "google/protobuf/util/message_differencer.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// `has_base`: what is frozen has a folder of its own.
proto::Variable NewVariable(const Op& op, const proto::Register& r, bool has_base) {
  proto::Variable v;
  v.set_name(VariableName(op));
  *v.mutable_layout() = r.layout();
  v.set_dtype(r.dtype());
  v.set_init(AttrString(op, "init", "zeros"));
  v.set_init_value(AttrDouble(op, "init_value"));
  v.set_read_only(IsFrozen(op));
  v.set_frozen(IsFrozen(op) && has_base);
  return v;
}

}  // namespace

absl::Status AddPersistent(const Graph& graph, proto::Plan* plan, PersistentIds* ids) {
  std::map<std::string, proto::Variable*> variables;
  for (proto::Variable& v : *plan->mutable_variable()) variables.emplace(v.name(), &v);
  for (const Op& op : graph.ops) {
    if (op.kind != "variable") continue;
    const std::string name = VariableName(op);
    proto::Register r = MakeRegister(graph, op.outputs[0], op.stage);
    const auto [it, fresh] = ids->emplace(std::pair(name, op.stage), plan->persistent_size());
    if (!fresh) {
      const proto::Register& old = plan->persistent(it->second);
      if (!google::protobuf::util::MessageDifferencer::Equals(old.layout(), r.layout())) {
        return absl::InternalError("variable " + name + " has different layouts in two programs");
      }
      if (old.dtype() != r.dtype()) {
        return absl::InternalError("variable " + name + " has different types in two programs");
      }
      continue;
    }
    r.set_id(it->second);
    r.set_slots(static_cast<int>(AttrInt(op, "versions", 1)));
    // A single version is updated in place; with several, each fill is a new version.
    r.set_fill_mode(r.slots() > 1 ? proto::Register::FRESH : proto::Register::UPDATE);
    if (op.in_host_memory) r.set_memory_kind(proto::HOST);
    *plan->add_persistent() = r;
    if (AttrBool(op, "transient")) continue;
    proto::Variable*& v = variables[name];
    if (v == nullptr) *(v = plan->add_variable()) = NewVariable(op, r, plan->graph().has_base());
    v->add_register_(r.id());
  }
  return absl::OkStatus();
}

void ConstrainVariables(const proto::Plan& plan, Graph* graph) {
  std::map<std::string, const proto::Layout*> layouts;
  // A transient variable has no name in the plan but its register's.
  for (const proto::Register& r : plan.persistent()) layouts[r.name()] = &r.layout();
  for (const proto::Variable& v : plan.variable()) layouts[v.name()] = &v.layout();
  for (const Op& op : graph->ops) {
    if (op.kind != "variable") continue;
    const auto it = layouts.find(VariableName(op));
    if (it == layouts.end()) continue;
    Tensor& tensor = graph->tensors[op.outputs[0]];
    tensor.constraint.clear();
    for (int axis = 0; axis < static_cast<int>(graph->mesh.axes.size()); ++axis) {
      if (axis != graph->mesh.stage_axis()) tensor.constraint[graph->mesh.axes[axis].name] = B();
    }
    const std::vector<int> states = FindAxes(*graph, op, "states");
    for (const auto& split : it->second->split()) {
      const std::string& axis = graph->mesh.axes[split.axis()].name;
      // Readers take it replicated; the pass split_variables splits it again.
      if (std::find(states.begin(), states.end(), split.axis()) != states.end() &&
          split.dim() == AttrInt(op, "split_dim")) {
        continue;
      }
      tensor.constraint[axis] = S(split.dim());
    }
  }
}

}  // namespace oneflow
