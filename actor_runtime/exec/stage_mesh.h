// StageMesh: the devices that fire an exchange together: groups of the plan as ranks. In the
// runtime only this file knows the stage axis; all other code sees ranks.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct StageMesh {
  Mesh mesh;
  int stage_axis = -1;

  int ranks() const { return mesh.devices(); }
  int RankToStage(int rank) const;
  // The members of the group that `rank` is in: along axes in rank order; between two stages the
  // sender is first.
  std::vector<int> FindMembers(const proto::Group& group, int rank) const;
};

// Requires a plan that passed VerifyPlanTypes.
absl::StatusOr<StageMesh> MakeStageMesh(const proto::Plan& plan);

}  // namespace oneflow
