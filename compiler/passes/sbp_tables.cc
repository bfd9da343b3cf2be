#include "compiler/passes/sbp_tables.h"

#include <algorithm>
#include <utility>

namespace oneflow {
namespace {

// Units that have a choice, ascending: what lies one way whatever its unit chooses is no end to
// choose.
std::vector<int> ScopeOf(const std::vector<End>& ends) {
  std::vector<int> scope;
  for (const End& end : ends) {
    const bool fixed = std::all_of(end.lies.begin(), end.lies.end(),
                                   [&](const NdSbp& lies) { return lies == end.lies[0]; });
    if (!fixed) scope.push_back(end.unit);
  }
  std::sort(scope.begin(), scope.end());
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  return scope;
}

// Readers (all ends but the first) that are fixed and need the same are one.
void DropRepeated(const std::vector<int>& scope, std::vector<End>* ends) {
  std::vector<NdSbp> seen;
  std::vector<End> kept = {ends->front()};
  for (size_t i = 1; i < ends->size(); ++i) {
    End& end = (*ends)[i];
    if (!std::binary_search(scope.begin(), scope.end(), end.unit)) {
      if (std::find(seen.begin(), seen.end(), end.lies[0]) != seen.end()) continue;
      seen.push_back(end.lies[0]);
    }
    kept.push_back(std::move(end));
  }
  *ends = std::move(kept);
}

}  // namespace

void SbpTables::Add(std::vector<End> ends, std::vector<int64_t> facts, const CostOfEnds& cost) {
  std::vector<int> scope = ScopeOf(ends);
  DropRepeated(scope, &ends);
  std::vector<int64_t> key = std::move(facts);
  for (const int unit : scope) key.push_back(units_.labels(unit));
  for (const End& end : ends) {
    const auto at = std::lower_bound(scope.begin(), scope.end(), end.unit) - scope.begin();
    const bool free = at < static_cast<int64_t>(scope.size()) && scope[at] == end.unit;
    key.push_back(free ? at : -1);
    for (const NdSbp& lies : end.lies) {
      for (const Sbp sbp : lies) key.push_back(sbp.kind * 256 + sbp.dim);
      if (!free) break;
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
  for (const int unit : scope) table.sizes.push_back(units_.labels(unit));
  std::vector<int> label(scope.size(), 0);
  std::vector<NdSbp> lies(ends.size());
  while (true) {
    for (size_t e = 0; e < ends.size(); ++e) {
      const auto at = std::lower_bound(scope.begin(), scope.end(), ends[e].unit);
      const bool free = at != scope.end() && *at == ends[e].unit;
      lies[e] = ends[e].lies[free ? label[at - scope.begin()] : 0];
    }
    table.costs.push_back(cost(lies));
    size_t i = scope.size();
    while (i > 0 && ++label[i - 1] == table.sizes[i - 1]) label[--i] = 0;
    if (i == 0) break;
  }
  return std::make_shared<const CostTable>(std::move(table));
}

}  // namespace oneflow
