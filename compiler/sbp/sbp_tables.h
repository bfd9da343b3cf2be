// Terms of a ChoiceNetwork over the ports of a tensor: its writer and its readers. Part of
// infer_sbp. It knows the layouts of ports, not their costs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// One port of a tensor: the variables that determine its layout, ascending, and the layout for each
// combination of their values, the last variable fastest. A port without variables has one layout.
struct TensorPort {
  std::vector<int> variables;
  std::vector<NdSbp> sbps;
};

class SbpTables {
 public:
  explicit SbpTables(ChoiceNetwork* network) : network_(network) {}  // must outlive this

  // Adds a term over the variables of `ports`, the first of which is the writer. `cost` may depend
  // on `facts` and on the layouts only, so equal tensors share a table.
  using CostOfPorts = std::function<Cost(const std::vector<NdSbp>& sbps)>;
  void Add(std::vector<TensorPort> ports, std::vector<int64_t> facts, const CostOfPorts& cost);

  // Adds a term in which readers share: `cost` counts once for each layout that some reader needs.
  // If one table over all ports would be too large, auxiliary variables are added to the network
  // instead; so add all other variables before.
  using CostOfTransition = std::function<Cost(const NdSbp& from, const NdSbp& need)>;
  void AddShared(std::vector<TensorPort> ports, std::vector<int64_t> facts,
                 const CostOfTransition& cost);

 private:
  void Reduce(TensorPort* port) const;
  std::vector<int> FindScope(const std::vector<TensorPort>& ports) const;
  void AddReduced(const std::vector<TensorPort>& ports, std::vector<int64_t> key,
                  const CostOfPorts& cost);
  std::shared_ptr<const CostTable> Fill(const std::vector<int>& scope,
                                        const std::vector<TensorPort>& ports,
                                        const CostOfPorts& cost) const;
  void AddChains(const std::vector<TensorPort>& ports, const CostOfTransition& cost);
  int AddLink(const TensorPort& reader, const NdSbp& need, int before);

  ChoiceNetwork* network_;
  std::map<std::vector<int64_t>, std::shared_ptr<const CostTable>> tables_;
};

// Extends an assignment to the auxiliary variables, which it determines.
std::vector<int> ExtendAssignment(const ChoiceNetwork& network, std::vector<int> assignment);

}  // namespace oneflow
