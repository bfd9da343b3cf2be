#include "compiler/lower/registers.h"

#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

Layout MakeRegisterLayout(const Tensor& tensor) {
  return MakeLayout(tensor.shape.dims, tensor.sbp);
}

proto::Register NewRegister(const std::string& name, int stage, const Layout& layout, DType dtype,
                            int64_t bytes) {
  proto::Register r;
  r.set_name(name);
  r.set_stage(stage);
  *r.mutable_layout() = ToProto(layout);
  r.set_dtype(ToProto(dtype));
  r.set_slot_bytes(RoundUp(bytes));
  r.set_slots(1);
  r.set_fires_per_fill(1);
  return r;
}

}  // namespace

int64_t RoundUp(int64_t bytes) {
  return (bytes + kRegisterAlign - 1) / kRegisterAlign * kRegisterAlign;
}

proto::Register MakeRegister(const Graph& graph, TensorId id, int stage) {
  const Tensor& tensor = graph.tensors[id];
  const Layout layout = MakeRegisterLayout(tensor);
  const int64_t bytes =
      MaxElements(layout, graph.mesh) * static_cast<int64_t>(ElementBytes(tensor.dtype));
  return NewRegister(tensor.name, stage, layout, tensor.dtype, bytes);
}

proto::Register MakeWorkspace(const std::string& name, int stage, int64_t bytes) {
  Layout layout;
  layout.dims = {bytes};
  return NewRegister(name, stage, layout, DType::kU8, bytes);
}

Dims LocalDims(const Graph& graph, TensorId tensor) {
  return LargestSlice(MakeRegisterLayout(graph.tensors[tensor]), graph.mesh).size;
}

}  // namespace oneflow
