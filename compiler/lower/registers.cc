#include "compiler/lower/registers.h"

#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

int64_t RoundUp(int64_t bytes) {
  return (bytes + kRegisterAlign - 1) / kRegisterAlign * kRegisterAlign;
}

proto::Register RegisterOf(const Tensor& tensor, int stage, const Mesh& mesh) {
  const Layout layout = LayoutOf(tensor.shape.dims, tensor.sbp);
  const int64_t bytes = MaxElements(layout, mesh) * static_cast<int64_t>(SizeOf(tensor.dtype));
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

Dims LocalDims(const Tensor& tensor, const Mesh& mesh) {
  return SliceOf(LayoutOf(tensor.shape.dims, tensor.sbp), mesh, Coordinate(mesh.axes.size(), 0))
      .size;
}

}  // namespace oneflow
