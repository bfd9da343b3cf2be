// Terms of a ChoiceNetwork over the ends of a tensor: its writer and its readers. Part of
// infer_sbp; it knows how ends lie, not what they cost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// One end of a tensor: the variables that say how it lies, ascending, and how it lies for each
// combination of their labels, the last variable fastest. Without variables it lies one way.
struct End {
  std::vector<int> variables;
  std::vector<NdSbp> lies;
};

class SbpTables {
 public:
  explicit SbpTables(ChoiceNetwork* network) : network_(network) {}  // must outlive this

  // Adds a term over the variables of `ends`, the first of which is the writer. Tensors that are
  // alike share a table: `facts` and how the ends lie are all that `cost` depends on.
  using CostOfEnds = std::function<Cost(const std::vector<NdSbp>& lies)>;
  void Add(std::vector<End> ends, std::vector<int64_t> facts, const CostOfEnds& cost);

  // The same where readers share: `cost` once for each way in which some of them need the tensor.
  // Where a table of all their labels would be too large, helpers beyond the network's variables
  // stand in; so add those before.
  using CostOfWay = std::function<Cost(const NdSbp& from, const NdSbp& need)>;
  void AddShared(std::vector<End> ends, std::vector<int64_t> facts, const CostOfWay& cost);

 private:
  void Reduce(End* end) const;
  std::vector<int> ScopeOf(const std::vector<End>& ends) const;
  void AddReduced(const std::vector<End>& ends, std::vector<int64_t> key, const CostOfEnds& cost);
  std::shared_ptr<const CostTable> Fill(const std::vector<int>& scope, const std::vector<End>& ends,
                                        const CostOfEnds& cost) const;
  void AddChains(const std::vector<End>& ends, const CostOfWay& cost);
  int AddLink(const End& reader, const NdSbp& need, int before);

  ChoiceNetwork* network_;
  std::map<std::vector<int64_t>, std::shared_ptr<const CostTable>> tables_;
};

// A label for every variable of a network, given those of the first: what helpers stand for
// follows.
std::vector<int> CompleteLabels(const ChoiceNetwork& network, std::vector<int> label);

}  // namespace oneflow
