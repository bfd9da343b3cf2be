#include "compiler/lower/boxing.h"

#include <glog/logging.h>

#include <vector>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// Bytes that the device at coordinate 0, which has the largest part, takes from others in one
// firing.
double BytesReceived(const Graph& graph, const Op& op, const std::vector<int>& along) {
  const Tensor &from = graph.tensors[op.inputs[0]], &to = graph.tensors[op.outputs[0]];
  const Coordinate c(graph.mesh.axes.size(), 0);
  const Slice mine = SliceOf(LayoutOf(to.shape.dims, to.sbp), graph.mesh, c);
  const int self = graph.mesh.RankOf(c);
  int64_t elements = op.kind == "transfer" ? mine.elements() : 0;
  for (int peer : graph.mesh.Peers(c, along)) {
    if (peer == self) continue;
    const Layout layout = LayoutOf(from.shape.dims, from.sbp);
    elements +=
        Intersect(mine, SliceOf(layout, graph.mesh, graph.mesh.CoordinateOf(peer))).elements();
  }
  return static_cast<double>(elements) * static_cast<double>(SizeOf(from.dtype));
}

}  // namespace

void LowerBoxing(const Graph& graph, const Op& op, proto::Actor* actor) {
  CHECK_EQ(op.inputs.size(), 1u) << op.name;
  proto::Boxing* boxing = actor->mutable_boxing();
  boxing->set_why(op.why);
  std::vector<int> along;
  if (op.kind != "transfer") {
    const int axis = graph.mesh.FindAxis(AttrString(op, "axis"));
    CHECK_GE(axis, 0) << op.name;
    if (op.kind == "zero_fill") boxing->add_zero_unless_first(axis);
    if (op.kind != "zero_fill" && op.kind != "slice") along.push_back(axis);
    const Sbp from = graph.tensors[op.inputs[0]].sbp[axis];
    if (from.partial()) {
      boxing->add_reduce_axis(axis);
      boxing->set_reduce(from.kind == Sbp::kPartialMax ? proto::Boxing::MAX : proto::Boxing::SUM);
    }
  }
  for (int axis : along) actor->mutable_input(0)->mutable_peers()->add_along(axis);
  actor->set_bytes_moved(BytesReceived(graph, op, along));
}

}  // namespace oneflow
