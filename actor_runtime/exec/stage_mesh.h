// Which devices an edge of the plan joins: PeerRule as code. The one place of the runtime that
// knows the stage axis; all else sees ranks.
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
  int StageOf(int rank) const;
  // The devices of `stage` whose coordinates equal that of `rank`, stage axis aside, except along
  // `along`, which take all values; ascending.
  std::vector<int> PeersOf(int rank, int stage, const std::vector<int>& along) const;
  // The same, for a caller who only wants their number.
  int PeersAlong(const std::vector<int>& along) const;
};

// Requires a plan that passed VerifyPlanTypes.
absl::StatusOr<StageMesh> StageMeshOf(const proto::Plan& plan);

}  // namespace oneflow
