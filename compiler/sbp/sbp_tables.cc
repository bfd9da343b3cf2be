#include "compiler/sbp/sbp_tables.h"

#include <algorithm>
#include <utility>

namespace oneflow {
namespace {

constexpr double kMostCells = 1 << 15;  // of the table of one tensor

// Of the readers (all ports but the first) that have one fixed layout, keeps one for each layout.
void DropDuplicates(std::vector<TensorPort>* ports) {
  std::vector<NdSbp> seen;
  const auto repeated = [&](const TensorPort& port) {
    if (!port.variables.empty()) return false;
    if (std::find(seen.begin(), seen.end(), port.sbps[0]) != seen.end()) return true;
    seen.push_back(port.sbps[0]);
    return false;
  };
  ports->erase(std::remove_if(ports->begin() + 1, ports->end(), repeated), ports->end());
}

size_t IndexIn(const std::vector<int>& scope, int variable) {
  return std::lower_bound(scope.begin(), scope.end(), variable) - scope.begin();
}

}  // namespace

// Removes variables that make no difference.
void SbpTables::Reduce(TensorPort* port) const {
  int64_t inner = 1;  // combinations of the variables after i
  for (size_t i = port->variables.size(); i-- > 0;) {
    const int64_t values = network_->domain_size(port->variables[i]);
    std::vector<NdSbp>& sbps = port->sbps;
    const auto first = [&](int64_t at) { return at - at / inner % values * inner; };
    bool equal = true;
    for (int64_t at = 0; equal && at < static_cast<int64_t>(sbps.size()); ++at) {
      equal = sbps[at] == sbps[first(at)];
    }
    if (!equal) {
      inner *= values;
      continue;
    }
    std::vector<NdSbp> kept;
    for (int64_t at = 0; at < static_cast<int64_t>(sbps.size()); ++at) {
      if (first(at) == at) kept.push_back(std::move(sbps[at]));
    }
    sbps = std::move(kept);
    port->variables.erase(port->variables.begin() + static_cast<int64_t>(i));
  }
}

std::vector<int> SbpTables::FindScope(const std::vector<TensorPort>& ports) const {
  std::vector<int> scope;
  for (const TensorPort& port : ports) {
    scope.insert(scope.end(), port.variables.begin(), port.variables.end());
  }
  std::sort(scope.begin(), scope.end());
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  return scope;
}

void SbpTables::Add(std::vector<TensorPort> ports, std::vector<int64_t> facts,
                    const CostOfPorts& cost) {
  for (TensorPort& port : ports) Reduce(&port);
  AddReduced(ports, std::move(facts), cost);
}

void SbpTables::AddShared(std::vector<TensorPort> ports, std::vector<int64_t> facts,
                          const CostOfTransition& cost) {
  for (TensorPort& port : ports) Reduce(&port);
  DropDuplicates(&ports);
  double cells = 1;
  for (const int v : FindScope(ports)) cells *= network_->domain_size(v);
  if (cells > kMostCells) return AddChains(ports, cost);
  AddReduced(ports, std::move(facts), [&](const std::vector<NdSbp>& sbps) {
    Cost sum = 0;
    for (auto need = sbps.begin() + 1; need != sbps.end(); ++need) {
      if (std::find(sbps.begin() + 1, need, *need) == need) {
        sum = AddCosts(sum, cost(sbps[0], *need));
      }
    }
    return sum;
  });
}

void SbpTables::AddReduced(const std::vector<TensorPort>& ports, std::vector<int64_t> key,
                           const CostOfPorts& cost) {
  std::vector<int> scope = FindScope(ports);
  for (const int v : scope) key.push_back(network_->domain_size(v));
  for (const TensorPort& port : ports) {
    key.push_back(-static_cast<int64_t>(port.variables.size()));
    for (const int v : port.variables) key.push_back(static_cast<int64_t>(IndexIn(scope, v)));
    for (const NdSbp& sbps : port.sbps) {
      for (const Sbp sbp : sbps) key.push_back(sbp.kind * 256 + sbp.dim);
    }
  }
  const auto [it, fresh] = tables_.try_emplace(std::move(key));
  if (fresh) it->second = Fill(scope, ports, cost);
  network_->AddTerm(std::move(scope), it->second);
}

std::shared_ptr<const CostTable> SbpTables::Fill(const std::vector<int>& scope,
                                                 const std::vector<TensorPort>& ports,
                                                 const CostOfPorts& cost) const {
  CostTable table;
  for (const int v : scope) table.sizes.push_back(network_->domain_size(v));
  std::vector<int> assignment(scope.size(), 0);
  std::vector<NdSbp> sbps(ports.size());
  while (true) {
    for (size_t e = 0; e < ports.size(); ++e) {
      int64_t at = 0;
      for (const int v : ports[e].variables) {
        at = at * network_->domain_size(v) + assignment[IndexIn(scope, v)];
      }
      sbps[e] = ports[e].sbps[at];
    }
    table.costs.push_back(cost(sbps));
    size_t i = scope.size();
    while (i > 0 && ++assignment[i - 1] == table.sizes[i - 1]) assignment[--i] = 0;
    if (i == 0) break;
  }
  return std::make_shared<const CostTable>(std::move(table));
}

// For each needed layout: a chain of auxiliary variables along the readers, each 1 if a reader up
// to here needs that layout.
void SbpTables::AddChains(const std::vector<TensorPort>& ports, const CostOfTransition& cost) {
  std::vector<NdSbp> needs;
  for (size_t i = 1; i < ports.size(); ++i) {
    for (const NdSbp& sbps : ports[i].sbps) {
      if (std::find(needs.begin(), needs.end(), sbps) == needs.end()) needs.push_back(sbps);
    }
  }
  for (const NdSbp& need : needs) {
    int last = -1;
    for (size_t i = 1; i < ports.size(); ++i) last = AddLink(ports[i], need, last);
    const TensorPort& writer = ports.front();
    std::vector<int> scope = writer.variables;
    CostTable table;
    for (const int v : scope) table.sizes.push_back(network_->domain_size(v));
    scope.push_back(last);
    table.sizes.push_back(2);
    for (const NdSbp& from : writer.sbps) {
      table.costs.push_back(0);
      table.costs.push_back(cost(from, need));
    }
    network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  }
}

// A variable that must be 1 where the one before it is, or where `reader` needs `need`.
int SbpTables::AddLink(const TensorPort& reader, const NdSbp& need, int before) {
  const int link = network_->AddVariable(2);
  std::vector<int> scope = reader.variables;
  if (before >= 0) scope.push_back(before);
  scope.push_back(link);
  CostTable table;
  for (const int v : scope) table.sizes.push_back(network_->domain_size(v));
  for (const NdSbp& sbps : reader.sbps) {
    for (int already = 0; already < (before >= 0 ? 2 : 1); ++already) {
      table.costs.push_back(already == 1 || sbps == need ? kForbidden : 0);
      table.costs.push_back(0);
    }
  }
  network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  return link;
}

std::vector<int> ExtendAssignment(const ChoiceNetwork& network, std::vector<int> assignment) {
  // An auxiliary variable is 1 where a term up to it forbids 0 (SbpTables::AddLink).
  std::vector<std::vector<const ChoiceNetwork::Term*>> last(network.variables());
  for (const ChoiceNetwork::Term& term : network.terms()) {
    if (!term.variables.empty()) last[term.variables.back()].push_back(&term);
  }
  for (int v = static_cast<int>(assignment.size()); v < network.variables(); ++v) {
    assignment.push_back(0);
    for (const ChoiceNetwork::Term* term : last[v]) {
      if (network.Evaluate(*term, assignment) >= kForbidden) assignment[v] = 1;
    }
  }
  return assignment;
}

}  // namespace oneflow
