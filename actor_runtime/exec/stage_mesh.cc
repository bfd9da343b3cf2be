#include "actor_runtime/exec/stage_mesh.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

int StageMesh::StageOf(int rank) const {
  return stage_axis < 0 ? 0 : mesh.CoordinateOf(rank)[stage_axis];
}

std::vector<int> StageMesh::PeersOf(int rank, int stage, const std::vector<int>& along) const {
  Coordinate c = mesh.CoordinateOf(rank);
  if (stage_axis >= 0) c[stage_axis] = stage;
  return mesh.Peers(c, along);
}

int StageMesh::PeersAlong(const std::vector<int>& along) const {
  int n = 1;
  for (const int axis : along) n *= mesh.axes[axis].size;
  return n;
}

absl::StatusOr<StageMesh> StageMeshOf(const proto::Plan& plan) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan, mesh"));
  return StageMesh{std::move(mesh), plan.stage_axis()};
}

}  // namespace oneflow
