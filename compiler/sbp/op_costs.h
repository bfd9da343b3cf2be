// The costs of ops: the seconds that an op takes on a device, for each combination of its group.
// Part of infer_sbp. It does not know the costs of boxing (transition_cost.h does).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/sbp/choice_space.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

class OpCosts {
 public:
  // All arguments must outlive this.
  OpCosts(const Graph& graph, const SbpChoice& previous, const SbpOptions& options,
          const ChoiceSpace& space)
      : graph_(graph),
        previous_(previous),
        options_(options),
        space_(space),
        cost_(options.cluster.device()),
        of_op_(graph.ops.size(), nullptr) {}

  // The seconds of one firing for each combination of the op's group, the last axis fastest: those
  // of a call of its kernel (kernel_cost.h), as in actor_cost.h. A partial value has the tensor's
  // size on every device. Equal ops are computed once.
  const std::vector<double>& Seconds(OpId op);

  // The number of parts into which the axes before the first of `space` split a tensor that has the
  // SBPs `previous` there.
  double PartsBefore(const NdSbp& previous) const;

 private:
  // An input or output: its bytes and sizes, and its SBP for each option on each axis.
  struct Operand {
    double bytes = 0;
    Dims dims;
    std::vector<std::vector<Sbp>> sbps;
  };
  // The call before the axes divide it. Operands: all inputs, then all outputs.
  struct Work {
    CallWork call;
    std::vector<Operand> operands;
    size_t inputs = 0;
    const OpDef* def = nullptr;  // null for a variable
    const AttrMap* attrs = nullptr;
  };
  Work MakeWork(OpId op) const;
  std::vector<Operand> MakeOperands(OpId op) const;
  double ShareBefore(OpId op) const;
  double Devices(int k) const;
  double SecondsWith(const Work& work, const std::vector<int>& combination) const;
  // The largest pieces with this combination.
  LocalOp LocalWork(const Work& work, const std::vector<int>& combination) const;
  const std::vector<double>& FindSeconds(OpId op);
  void AddSizes(int group, const Work& work, std::vector<double>* key) const;

  const Graph& graph_;
  const SbpChoice& previous_;
  const SbpOptions& options_;
  const ChoiceSpace& space_;
  const KernelCost cost_;
  std::map<std::pair<std::string, std::vector<double>>, std::vector<double>> known_;
  std::vector<const std::vector<double>*> of_op_;  // in known_; null: not asked for yet
};

}  // namespace oneflow
