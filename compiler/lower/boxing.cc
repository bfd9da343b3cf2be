#include "compiler/lower/boxing.h"

#include <glog/logging.h>

#include <algorithm>
#include <vector>

#include "compiler/boxing/boxing_path.h"
#include "compiler/boxing/boxing_primitive.h"
#include "compiler/lower/groups.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// Each device receives all it needs from the device of the same coordinate on the other stage.
void LowerTransfer(const Graph& graph, const Op& op, const proto::Cluster& cluster,
                   proto::ActorFacts* facts) {
  const Tensor& to = graph.tensors[op.outputs[0]];
  const int64_t elements = MaxElements(MakeLayout(to.shape.dims, to.sbp), graph.mesh);
  const double bytes = static_cast<double>(elements) * static_cast<double>(ElementBytes(to.dtype));
  const int from = graph.Producer(op.inputs[0]).stage;
  const GroupLinks links = LinksOfStages(cluster, graph.mesh, from, op.stage);
  facts->set_bytes_moved(bytes);
  facts->set_seconds(ExchangeSeconds("transfer", bytes, links));
}

void SetReduction(const BoxingPrimitive& primitive, const NdSbp& from, proto::Boxing* boxing) {
  for (const int axis : primitive.along) {
    if (!from[axis].partial()) continue;
    boxing->add_reduce_axis(axis);
    const bool max = from[axis].kind == Sbp::kPartialMax;
    boxing->set_reduce(max ? proto::Boxing::MAX : proto::Boxing::SUM);
  }
}

// A replicated term of a sum is kept by one device, the others have zeros; a term of a maximum is
// kept by all. In a split all keep what they have, and fill the rest.
void SetFill(const NdSbp& from, const NdSbp& to, proto::Boxing* boxing) {
  for (int axis = 0; axis < static_cast<int>(from.size()); ++axis) {
    if (from[axis] == to[axis]) continue;
    const bool max = to[axis].kind == Sbp::kPartialMax;
    if (from[axis].split()) boxing->set_fill(max ? proto::Boxing::LOWEST : proto::Boxing::ZERO);
    if (from[axis].broadcast() && !max) boxing->add_zero_unless_first(axis);
  }
}

void JoinBoxing(const Graph& graph, const Op& op, const proto::Cluster& cluster,
                proto::ActorFacts* facts) {
  const Tensor &from = graph.tensors[op.inputs[0]], &to = graph.tensors[op.outputs[0]];
  const BoxedTensor tensor{from.shape.dims, static_cast<int64_t>(ElementBytes(from.dtype))};
  const BoxingStep step = BoxingStepBetween({cluster, graph.mesh}, tensor, from.sbp, to.sbp);
  // They are fired together, and received as one.
  const BoxingPrices prices{cluster, graph.mesh};
  const BoxingPrimitive primitive = PrimitiveBetween(graph.mesh, from.sbp, to.sbp);
  const double before = facts->bytes_moved(), more = static_cast<double>(step.bytes);
  const double together = ReceiveSeconds(prices, primitive, before + more) -
                          ReceiveSeconds(prices, primitive, before) -
                          ReceiveSeconds(prices, primitive, more);
  facts->set_bytes_moved(before + more);
  facts->set_seconds(facts->seconds() + step.seconds + together);
}

}  // namespace

void LowerBoxing(const Graph& graph, const Op& op, const std::vector<proto::Group>& groups,
                 const proto::Cluster& cluster, proto::Actor* actor, proto::ActorFacts* facts) {
  CHECK_EQ(op.inputs.size(), 1u) << op.name;
  if (actor->has_boxing()) return JoinBoxing(graph, op, cluster, facts);
  proto::Boxing* boxing = actor->mutable_boxing();
  facts->set_why(op.why);
  const int group = FindGroup(groups, graph, op);
  if (group >= 0) actor->mutable_exchange()->set_group(group);
  if (op.kind == "transfer") return LowerTransfer(graph, op, cluster, facts);
  const Tensor &from = graph.tensors[op.inputs[0]], &to = graph.tensors[op.outputs[0]];
  const BoxingPrimitive primitive = PrimitiveBetween(graph.mesh, from.sbp, to.sbp);
  CHECK(primitive.kind == op.kind) << op.name;
  SetReduction(primitive, from.sbp, boxing);
  if (op.kind == "zero_fill") SetFill(from.sbp, to.sbp, boxing);
  const BoxedTensor tensor{from.shape.dims, static_cast<int64_t>(ElementBytes(from.dtype))};
  const BoxingStep step = BoxingStepBetween({cluster, graph.mesh}, tensor, from.sbp, to.sbp);
  facts->set_bytes_moved(static_cast<double>(step.bytes));
  facts->set_seconds(step.seconds);
}

}  // namespace oneflow
