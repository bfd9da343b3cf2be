#include "actor_runtime/exec/stage_mesh.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

int StageMesh::RankToStage(int rank) const {
  return stage_axis < 0 ? 0 : mesh.RankToCoordinate(rank)[stage_axis];
}

std::vector<int> StageMesh::FindMembers(const proto::Group& group, int rank) const {
  Coordinate c = mesh.RankToCoordinate(rank);
  if (!group.has_stages()) return mesh.Peers(c, {group.axis().begin(), group.axis().end()});
  std::vector<int> members;
  for (const int stage : {group.stages().from(), group.stages().to()}) {
    c[stage_axis] = stage;
    members.push_back(mesh.CoordinateToRank(c));
  }
  return members;
}

absl::StatusOr<StageMesh> MakeStageMesh(const proto::Plan& plan) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan, mesh"));
  return StageMesh{std::move(mesh), plan.stage_axis()};
}

}  // namespace oneflow
