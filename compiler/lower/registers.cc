#include "compiler/lower/registers.h"

#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

Layout LayoutOf(const Graph& graph, const Tensor& tensor) {
  return LayoutOf(tensor.shape.dims, tensor.sbp, graph.ops[tensor.producer].sub_mesh);
}

}  // namespace

int64_t RoundUp(int64_t bytes) {
  return (bytes + kRegisterAlign - 1) / kRegisterAlign * kRegisterAlign;
}

proto::Register RegisterOf(const Graph& graph, TensorId id, int stage) {
  const Tensor& tensor = graph.tensors[id];
  const Layout layout = LayoutOf(graph, tensor);
  const int64_t bytes =
      MaxElements(layout, graph.mesh) * static_cast<int64_t>(SizeOf(tensor.dtype));
  proto::Register r;
  r.set_name(tensor.name);
  r.set_stage(stage);
  *r.mutable_layout() = ToProto(layout);
  r.set_dtype(ToProto(tensor.dtype));
  r.set_slot_bytes(RoundUp(bytes));
  r.set_slots(1);
  r.set_fires_per_fill(1);
  return r;
}

Dims LocalDims(const Graph& graph, TensorId tensor) {
  return LargestSlice(LayoutOf(graph, graph.tensors[tensor]), graph.mesh).size;
}

}  // namespace oneflow
