#include "compiler/lower/boxing.h"

#include <glog/logging.h>

#include "compiler/boxing/boxing_path.h"
#include "compiler/boxing/boxing_primitive.h"
#include "compiler/lower/groups.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

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

}  // namespace

void LowerBoxing(const Graph& graph, std::span<const Op* const> ops,
                 const google::protobuf::RepeatedPtrField<proto::Group>& groups,
                 const proto::Cluster& cluster, proto::Actor* actor, proto::ActorFacts* facts) {
  const Op& op = *ops.front();
  CHECK_EQ(op.inputs.size(), 1u) << op.name;
  proto::Boxing* boxing = actor->mutable_boxing();
  facts->set_why(op.why);
  const int group = FindGroup(groups, graph, op);
  if (group >= 0) actor->mutable_exchange()->set_group(group);
  if (!IsTransfer(op.kind)) {
    const NdSbp &from = graph.tensors[op.inputs[0]].sbp, &to = graph.tensors[op.outputs[0]].sbp;
    const BoxingPrimitive primitive = PrimitiveBetween(graph.mesh, from, to);
    CHECK(primitive.kind == op.kind) << op.name;
    SetReduction(primitive, from, boxing);
    if (IsFill(op.kind)) SetFill(from, to, boxing);
  }
  BoxingWork work = MakeWork(graph, op);
  double bytes = BytesTaken(work);
  for (const Op* other : ops.subspan(1)) {
    const BoxingWork more = MakeWork(graph, *other);
    work.written += more.written;
    work.received += more.received;
    bytes += BytesTaken(more);
  }
  facts->set_bytes_moved(bytes);
  const KernelCost kernels(cluster.device());
  facts->set_seconds(BoxingTime(work, graph.mesh, cluster, kernels).both());
}

}  // namespace oneflow
