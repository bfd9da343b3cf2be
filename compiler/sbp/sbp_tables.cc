#include "compiler/sbp/sbp_tables.h"

#include <algorithm>
#include <utility>

namespace oneflow {
namespace {

constexpr double kMostCells = 1 << 15;  // of the table of one tensor

// Readers (all ends but the first) that lie one way and need the same are one.
void DropRepeated(std::vector<End>* ends) {
  std::vector<NdSbp> seen;
  const auto repeated = [&](const End& end) {
    if (!end.variables.empty()) return false;
    if (std::find(seen.begin(), seen.end(), end.lies[0]) != seen.end()) return true;
    seen.push_back(end.lies[0]);
    return false;
  };
  ends->erase(std::remove_if(ends->begin() + 1, ends->end(), repeated), ends->end());
}

size_t PlaceIn(const std::vector<int>& scope, int variable) {
  return std::lower_bound(scope.begin(), scope.end(), variable) - scope.begin();
}

}  // namespace

// Leaves out variables that make no difference.
void SbpTables::Reduce(End* end) const {
  int64_t inner = 1;  // combinations of the variables behind
  for (size_t i = end->variables.size(); i-- > 0;) {
    const int64_t labels = network_->labels(end->variables[i]);
    std::vector<NdSbp>& lies = end->lies;
    const auto first = [&](int64_t at) { return at - at / inner % labels * inner; };
    bool alike = true;
    for (int64_t at = 0; alike && at < static_cast<int64_t>(lies.size()); ++at) {
      alike = lies[at] == lies[first(at)];
    }
    if (!alike) {
      inner *= labels;
      continue;
    }
    std::vector<NdSbp> kept;
    for (int64_t at = 0; at < static_cast<int64_t>(lies.size()); ++at) {
      if (first(at) == at) kept.push_back(std::move(lies[at]));
    }
    lies = std::move(kept);
    end->variables.erase(end->variables.begin() + static_cast<int64_t>(i));
  }
}

std::vector<int> SbpTables::ScopeOf(const std::vector<End>& ends) const {
  std::vector<int> scope;
  for (const End& end : ends) {
    scope.insert(scope.end(), end.variables.begin(), end.variables.end());
  }
  std::sort(scope.begin(), scope.end());
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  return scope;
}

void SbpTables::Add(std::vector<End> ends, std::vector<int64_t> facts, const CostOfEnds& cost) {
  for (End& end : ends) Reduce(&end);
  AddReduced(ends, std::move(facts), cost);
}

void SbpTables::AddShared(std::vector<End> ends, std::vector<int64_t> facts,
                          const CostOfWay& cost) {
  for (End& end : ends) Reduce(&end);
  DropRepeated(&ends);
  double cells = 1;
  for (const int v : ScopeOf(ends)) cells *= network_->labels(v);
  if (cells > kMostCells) return AddChains(ends, cost);
  AddReduced(ends, std::move(facts), [&](const std::vector<NdSbp>& lies) {
    Cost sum = 0;
    for (auto need = lies.begin() + 1; need != lies.end(); ++need) {
      if (std::find(lies.begin() + 1, need, *need) == need) {
        sum = AddCosts(sum, cost(lies[0], *need));
      }
    }
    return sum;
  });
}

void SbpTables::AddReduced(const std::vector<End>& ends, std::vector<int64_t> key,
                           const CostOfEnds& cost) {
  std::vector<int> scope = ScopeOf(ends);
  for (const int v : scope) key.push_back(network_->labels(v));
  for (const End& end : ends) {
    key.push_back(-static_cast<int64_t>(end.variables.size()));
    for (const int v : end.variables) key.push_back(static_cast<int64_t>(PlaceIn(scope, v)));
    for (const NdSbp& lies : end.lies) {
      for (const Sbp sbp : lies) key.push_back(sbp.kind * 256 + sbp.dim);
    }
  }
  const auto [it, fresh] = tables_.try_emplace(std::move(key));
  if (fresh) it->second = Fill(scope, ends, cost);
  network_->AddTerm(std::move(scope), it->second);
}

std::shared_ptr<const CostTable> SbpTables::Fill(const std::vector<int>& scope,
                                                 const std::vector<End>& ends,
                                                 const CostOfEnds& cost) const {
  CostTable table;
  for (const int v : scope) table.sizes.push_back(network_->labels(v));
  std::vector<int> label(scope.size(), 0);
  std::vector<NdSbp> lies(ends.size());
  while (true) {
    for (size_t e = 0; e < ends.size(); ++e) {
      int64_t at = 0;
      for (const int v : ends[e].variables) {
        at = at * network_->labels(v) + label[PlaceIn(scope, v)];
      }
      lies[e] = ends[e].lies[at];
    }
    table.costs.push_back(cost(lies));
    size_t i = scope.size();
    while (i > 0 && ++label[i - 1] == table.sizes[i - 1]) label[--i] = 0;
    if (i == 0) break;
  }
  return std::make_shared<const CostTable>(std::move(table));
}

// For each need a chain of helpers along the readers, each 1 if a reader up to here has the need.
void SbpTables::AddChains(const std::vector<End>& ends, const CostOfWay& cost) {
  std::vector<NdSbp> needs;
  for (size_t i = 1; i < ends.size(); ++i) {
    for (const NdSbp& lies : ends[i].lies) {
      if (std::find(needs.begin(), needs.end(), lies) == needs.end()) needs.push_back(lies);
    }
  }
  for (const NdSbp& need : needs) {
    int last = -1;
    for (size_t i = 1; i < ends.size(); ++i) last = AddLink(ends[i], need, last);
    const End& writer = ends.front();
    std::vector<int> scope = writer.variables;
    CostTable table;
    for (const int v : scope) table.sizes.push_back(network_->labels(v));
    scope.push_back(last);
    table.sizes.push_back(2);
    for (const NdSbp& from : writer.lies) {
      table.costs.push_back(0);
      table.costs.push_back(cost(from, need));
    }
    network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  }
}

// A variable that must be 1 where the one before it is, or where `reader` needs `need`.
int SbpTables::AddLink(const End& reader, const NdSbp& need, int before) {
  const int link = network_->AddVariable(2);
  std::vector<int> scope = reader.variables;
  if (before >= 0) scope.push_back(before);
  scope.push_back(link);
  CostTable table;
  for (const int v : scope) table.sizes.push_back(network_->labels(v));
  for (const NdSbp& lies : reader.lies) {
    for (int already = 0; already < (before >= 0 ? 2 : 1); ++already) {
      table.costs.push_back(already == 1 || lies == need ? kNever : 0);
      table.costs.push_back(0);
    }
  }
  network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  return link;
}

std::vector<int> CompleteLabels(const ChoiceNetwork& network, std::vector<int> label) {
  // A helper is 1 where a term up to it allows nothing else (SbpTables::AddLink).
  std::vector<std::vector<const ChoiceNetwork::Term*>> last(network.variables());
  for (const ChoiceNetwork::Term& term : network.terms()) {
    if (!term.variables.empty()) last[term.variables.back()].push_back(&term);
  }
  for (int v = static_cast<int>(label.size()); v < network.variables(); ++v) {
    label.push_back(0);
    for (const ChoiceNetwork::Term* term : last[v]) {
      if (network.CostOf(*term, label) >= kNever) label[v] = 1;
    }
  }
  return label;
}

}  // namespace oneflow
