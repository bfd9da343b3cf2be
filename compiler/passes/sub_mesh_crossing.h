// What it takes to lead a tensor from one mesh to another of the same stage: the primitive
// send_receive. Sub-meshes may be the same devices in another shape, share some devices, or none.
// Each device takes what it lacks, by intersection of slices, from the nearest holder. Part of
// boxing_path.
#pragma once

#include <cstdint>
#include <optional>

#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"
#include "oneflow_core/tensor/sub_mesh.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// How a tensor lies: an nd-SBP on the axes of a sub-mesh, or of the whole mesh where there is none.
struct MeshSbp {
  std::optional<SubMesh> sub_mesh;
  NdSbp sbp;
  bool operator==(const MeshSbp&) const = default;
};

struct Crossing {
  int64_t most = 0, all = 0;  // elements received: by the device that receives most, by all
  double seconds = 0;         // of the device that waits longest: latency once, then its bytes
};

// Requires that nothing is partial. `mesh`: the whole one.
Crossing CrossingBetween(const proto::Cluster& cluster, const Mesh& mesh, const Dims& dims,
                         int64_t element_bytes, const MeshSbp& from, const MeshSbp& to);

// What joins the devices along an axis of a sub-mesh: of all pairs of ends the slowest.
Link LinkOfAxis(const proto::Cluster& cluster, const Mesh& mesh, const SubMesh& sub, int axis);

}  // namespace oneflow
