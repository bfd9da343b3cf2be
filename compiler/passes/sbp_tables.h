// Terms of a ChoiceNetwork over the ends of a tensor: its writer and its readers. Part of
// infer_sbp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compiler/passes/choice_network.h"
#include "compiler/passes/sbp_labels.h"
#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// How one end of a tensor lies on the axes that are chosen, for each label of its unit.
struct End {
  int unit = 0;
  std::vector<NdSbp> lies;
};

class SbpTables {
 public:
  // Both must outlive this.
  SbpTables(const SbpLabels& units, ChoiceNetwork* network) : units_(units), network_(network) {}

  // Adds a term over the units of `ends`, the first of which is the writer. Tensors that are alike
  // share a table: `facts` and how the ends lie are all that `cost` depends on.
  using CostOfEnds = std::function<Cost(const std::vector<NdSbp>& lies)>;
  void Add(std::vector<End> ends, std::vector<int64_t> facts, const CostOfEnds& cost);

 private:
  std::shared_ptr<const CostTable> Fill(const std::vector<int>& scope, const std::vector<End>& ends,
                                        const CostOfEnds& cost) const;

  const SbpLabels& units_;
  ChoiceNetwork* network_;
  std::map<std::vector<int64_t>, std::shared_ptr<const CostTable>> tables_;
};

}  // namespace oneflow
