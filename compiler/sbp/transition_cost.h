// The cost of turning one SBP into another on ONE mesh axis, in the search of infer_sbp: the time
// of the path that insert_boxing would take (boxing_path.h), with even parts. Part of infer_sbp.
//
//   TransitionCosts costs(cluster, mesh, axis);
//   double seconds = costs.Seconds(P(), B(), bytes, DType::kF32);
#pragma once

#include <map>
#include <tuple>

#include "compiler/boxing/boxing_path.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "proto/cluster.pb.h"

namespace oneflow {

class TransitionCosts {
 public:
  // Both arguments must outlive this.
  TransitionCosts(const proto::Cluster& cluster, const Mesh& mesh, int axis)
      : kernels_(cluster.device()), cluster_(cluster), mesh_(mesh), axis_(axis) {}

  double devices() const { return static_cast<double>(mesh_.axes[axis_].size); }

  // The seconds of the cheapest path, for a tensor of `bytes` in each group along the axis; 0 if
  // equal. Each path is computed once.
  double Seconds(Sbp from, Sbp to, double bytes, DType dtype) const;

 private:
  using Key = std::tuple<int, int, int, int, double, DType>;

  KernelCost kernels_;
  const proto::Cluster& cluster_;
  const Mesh& mesh_;
  int axis_;
  mutable std::map<Key, double> known_;
};

}  // namespace oneflow
