// What computing an op takes a device, for each way in which its unit may choose. Part of
// infer_sbp; what moving tensors takes is transition_price.h's and boxing_path.h's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/sbp_labels.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

class OpPrices {
 public:
  // All must outlive this.
  OpPrices(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
           const SbpLabels& labels)
      : graph_(graph),
        settled_(settled),
        options_(options),
        labels_(labels),
        cost_(options.cluster.device()) {}

  // Seconds of one firing for each combination of the labels of its unit, the last axis fastest: of
  // a call of its kernel (kernel_cost.h), as actor_cost.h prices it. A partial value is as large on
  // every device as the tensor. Ops that are alike are worked out once.
  const std::vector<double>& SecondsOf(OpId op);

  // Parts into which the axes before the first of `labels` cut what lies as `settled` there.
  double PartsBefore(const NdSbp& settled) const;

 private:
  // An input or output: its bytes, and how it lies for each label on each axis.
  struct Port {
    double bytes = 0, elements = 0;
    double matrices = 1;  // of the last two dimensions each
    int matrix_dim = 0;   // the first of these two
    std::vector<std::vector<Sbp>> lies;
  };
  // A call before the axes divide it, and all inputs, then all outputs, of its op.
  struct Work {
    CallWork call;
    std::vector<Port> ports;
    size_t inputs = 0;
    Products products = Products::kNone;
  };
  Work WorkOf(OpId op) const;
  std::vector<Port> PortsOf(OpId op) const;
  double ShareBefore(OpId op) const;
  double Devices(int k) const;
  double SecondsWith(const Work& work, const std::vector<int>& label) const;
  void SetResults(const Work& work, const std::vector<int>& label, CallWork* call) const;

  const Graph& graph_;
  const SbpChoice& settled_;
  const SbpOptions& options_;
  const SbpLabels& labels_;
  const KernelCost cost_;
  std::map<std::pair<std::string, std::vector<double>>, std::vector<double>> known_;
};

}  // namespace oneflow
