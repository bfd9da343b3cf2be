// What turning one SBP into another on ONE mesh axis takes, as the search of infer_sbp sees it: the
// price of the way that insert_boxing would take (boxing_path.h), as if all parts were even. Part of
// infer_sbp.
//
//   TransitionPrices prices(cluster, mesh, axis);
//   double seconds = prices.Seconds(P(), B(), bytes);
#pragma once

#include <map>
#include <tuple>

#include "compiler/boxing/boxing_path.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "proto/cluster.pb.h"

namespace oneflow {

class TransitionPrices {
 public:
  // Both must outlive this.
  TransitionPrices(const proto::Cluster& cluster, const Mesh& mesh, int axis)
      : prices_{cluster, mesh}, axis_(axis) {}

  double devices() const { return static_cast<double>(prices_.mesh.axes[axis_].size); }

  // Of the cheapest way, of a tensor of `bytes` in each group along the axis; 0 if equal. Ways are
  // worked out once.
  double Seconds(Sbp from, Sbp to, double bytes) const;

 private:
  using Key = std::tuple<int, int, int, int, double>;
  BoxingPrices prices_;
  int axis_;
  mutable std::map<Key, double> known_;
};

}  // namespace oneflow
