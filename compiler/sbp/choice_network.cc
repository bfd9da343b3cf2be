#include "compiler/sbp/choice_network.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "compiler/sbp/choice_descent.h"
#include "compiler/sbp/least_sums.h"

namespace oneflow {
namespace {

// A table over variables; `table` is its index in the TableStore.
struct Factor {
  std::vector<int> variables;  // ascending
  int table = -1;
};

// FNV-1a over integers.
template <typename T>
uint64_t Hash(const std::vector<T>& values) {
  uint64_t hash = 1469598103934665603u;
  for (const T value : values) hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211u;
  return hash;
}

// Stores each distinct table once.
class TableStore {
 public:
  int Intern(CostTable table) {
    std::vector<int>& candidates = by_hash_[Hash(table.costs)];
    for (const int id : candidates) {
      if (tables_[id] == table) return id;
    }
    candidates.push_back(static_cast<int>(tables_.size()));
    tables_.push_back(std::move(table));
    return candidates.back();
  }
  const CostTable& operator[](int id) const { return tables_[id]; }

 private:
  std::vector<CostTable> tables_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;
};

std::vector<int> StridesIn(const std::vector<int>& outer, const std::vector<int>& variables,
                           const CostTable& table) {
  std::vector<int> strides(outer.size(), 0);
  int stride = 1;
  for (size_t i = variables.size(); i-- > 0;) {
    const auto at = std::lower_bound(outer.begin(), outer.end(), variables[i]) - outer.begin();
    strides[at] = stride;
    stride *= table.sizes[i];
  }
  return strides;
}

class Elimination {
 public:
  Elimination(const ChoiceNetwork& network, int64_t max_cells)
      : network_(network), max_cells_(max_cells), factors_of_(network.variables()) {
    std::map<const CostTable*, int> known;
    for (const ChoiceNetwork::Term& term : network.terms()) {
      if (term.variables.empty()) {
        bound_ = AddCosts(bound_, term.table->costs[0]);
        continue;
      }
      const auto [it, fresh] = known.try_emplace(term.table.get(), -1);
      if (fresh) it->second = tables_.Intern(*term.table);
      AddFactor({term.variables, it->second});
    }
  }

  Choices Run() {
    weight_.resize(network_.variables());
    for (int v = 0; v < network_.variables(); ++v) queue_.insert({weight_[v] = Weight(v), v});
    std::vector<int> order;
    while (!queue_.empty()) {
      const int v = queue_.begin()->second;
      queue_.erase(queue_.begin());
      Eliminate(v);
      order.push_back(v);
    }
    Choices choices{std::vector<int>(network_.variables(), 0), 0, bound_};
    for (size_t i = order.size(); i-- > 0;) {
      choices.assignment[order[i]] = BestValue(order[i], choices.assignment);
    }
    choices.cost = network_.Evaluate(choices.assignment);
    return choices;
  }

 private:
  struct KeyHash {
    size_t operator()(const std::vector<int>& key) const { return Hash(key); }
  };
  // The table that replaces a mini-bucket once its variable is eliminated: the least costs, minus
  // `least`, the smallest of them. Subtracting it makes messages of equal layers equal.
  struct Message {
    int table = -1;
    Cost least = 0;
  };

  void AddFactor(Factor factor) {
    const int id = static_cast<int>(factors_.size());
    for (const int v : factor.variables) factors_of_[v].push_back(id);
    factors_.push_back(std::move(factor));
  }

  // The variables of these factors, ascending.
  void FindScope(const std::vector<int>& factors, std::vector<int>* scope) const {
    scope->clear();
    for (const int f : factors) {
      scope->insert(scope->end(), factors_[f].variables.begin(), factors_[f].variables.end());
    }
    std::sort(scope->begin(), scope->end());
    scope->erase(std::unique(scope->begin(), scope->end()), scope->end());
  }
  std::vector<int> Scope(const std::vector<int>& factors) const {
    std::vector<int> scope;
    FindScope(factors, &scope);
    return scope;
  }

  double Cells(const std::vector<int>& scope) const {
    double cells = 1;
    for (const int v : scope) cells *= network_.domain_size(v);
    return cells;
  }

  double Weight(int v) {
    FindScope(factors_of_[v], &scope_);
    return Cells(scope_);
  }

  // The factors of `v`, divided into mini-buckets whose tables have at most max_cells_ cells. One
  // bucket is exact. First fit: a factor joins the first mini-bucket that stays small enough.
  std::vector<std::vector<int>> MiniBuckets(int v) const {
    if (weight_[v] <= static_cast<double>(max_cells_)) return {factors_of_[v]};
    std::vector<std::vector<int>> buckets;
    for (const int f : factors_of_[v]) {
      bool added = false;
      for (std::vector<int>& bucket : buckets) {
        bucket.push_back(f);
        added = Cells(Scope(bucket)) <= static_cast<double>(max_cells_);
        if (added) break;
        bucket.pop_back();
      }
      if (!added) buckets.push_back({f});
    }
    return buckets;
  }

  void Eliminate(int v) {
    std::vector<int> neighbours;
    std::vector<Factor> messages;
    for (const std::vector<int>& bucket : MiniBuckets(v)) {
      const std::vector<int> scope = Scope(bucket);
      const Message message = ComputeMessage(bucket, scope, v);
      bound_ = AddCosts(bound_, message.least);
      Factor factor{{}, message.table};
      for (const int u : scope) {
        if (u != v) factor.variables.push_back(u);
      }
      neighbours.insert(neighbours.end(), factor.variables.begin(), factor.variables.end());
      if (!factor.variables.empty()) messages.push_back(std::move(factor));
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    for (const int u : neighbours) {
      std::erase_if(factors_of_[u], [&](int f) {
        const std::vector<int>& of_v = factors_of_[v];
        return std::find(of_v.begin(), of_v.end(), f) != of_v.end();
      });
    }
    for (Factor& message : messages) AddFactor(std::move(message));
    for (const int u : neighbours) {
      const double weight = Weight(u);
      if (weight == weight_[u]) continue;
      queue_.erase({weight_[u], u});
      queue_.insert({weight_[u] = weight, u});
    }
  }

  // The message of a mini-bucket depends on its tables and on the positions of their variables in
  // the scope only, so equal ones are computed once.
  Message ComputeMessage(const std::vector<int>& bucket, const std::vector<int>& scope, int v) {
    std::vector<int>& key = key_;
    key.clear();
    for (const int u : scope)
      key.push_back(u == v ? -network_.domain_size(u) : network_.domain_size(u));
    for (const int f : bucket) {
      key.push_back(factors_[f].table);
      for (const int u : factors_[f].variables) {
        key.push_back(
            static_cast<int>(std::lower_bound(scope.begin(), scope.end(), u) - scope.begin()));
      }
    }
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(key, MinimizeOver(bucket, scope, v)).first->second;
  }

  Message MinimizeOver(const std::vector<int>& bucket, const std::vector<int>& scope, int v) {
    std::vector<int> order = {v};
    CostTable least;
    for (const int u : scope) {
      if (u == v) continue;
      order.push_back(u);
      least.sizes.push_back(network_.domain_size(u));
    }
    std::vector<WalkedTable> tables;
    for (const int f : bucket) {
      const CostTable& table = tables_[factors_[f].table];
      const std::vector<int> strides = StridesIn(scope, factors_[f].variables, table);
      tables.push_back({table.costs.data(), {}});
      for (const int u : order) {
        tables.back().strides.push_back(
            strides[std::lower_bound(scope.begin(), scope.end(), u) - scope.begin()]);
      }
    }
    least.costs = LeastSums(network_.domain_size(v), least.sizes, std::move(tables));
    const Cost smallest = *std::min_element(least.costs.begin(), least.costs.end());
    for (Cost& cost : least.costs) cost = cost >= kForbidden ? kForbidden : cost - smallest;
    return {tables_.Intern(std::move(least)), smallest};
  }

  // The first of the best values of `v`, given those of the variables that were eliminated later.
  int BestValue(int v, std::vector<int>& assignment) const {
    int best = 0;
    Cost least = 0;
    for (int l = 0; l < network_.domain_size(v); ++l) {
      assignment[v] = l;
      Cost sum = 0;
      for (const int f : factors_of_[v]) {
        const CostTable& table = tables_[factors_[f].table];
        int64_t at = 0;
        for (size_t i = 0; i < table.sizes.size(); ++i) {
          at = at * table.sizes[i] + assignment[factors_[f].variables[i]];
        }
        sum = AddCosts(sum, table.costs[at]);
      }
      if (l > 0 && sum >= least) continue;
      best = l;
      least = sum;
    }
    return best;
  }

  const ChoiceNetwork& network_;
  const int64_t max_cells_;
  TableStore tables_;
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> factors_of_;  // of an eliminated variable: its bucket
  std::vector<double> weight_;                // cells of the table over a bucket's variables
  std::set<std::pair<double, int>> queue_;
  std::unordered_map<std::vector<int>, Message, KeyHash> known_;
  std::vector<int> scope_, key_;  // scratch of Weight and ComputeMessage
  Cost bound_ = 0;
};

}  // namespace

int ChoiceNetwork::AddVariable(int domain_size) {
  CHECK_GT(domain_size, 0);
  domain_sizes_.push_back(domain_size);
  return variables() - 1;
}

void ChoiceNetwork::AddTerm(std::vector<int> variables, std::shared_ptr<const CostTable> table) {
  CHECK_EQ(variables.size(), table->sizes.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    CHECK(i == 0 || variables[i] > variables[i - 1]);
    CHECK_EQ(table->sizes[i], domain_sizes_[variables[i]]);
  }
  terms_.push_back({std::move(variables), std::move(table)});
}

Cost ChoiceNetwork::Evaluate(const Term& term, const std::vector<int>& assignment) const {
  int64_t at = 0;
  for (size_t i = 0; i < term.variables.size(); ++i) {
    at = at * term.table->sizes[i] + assignment[term.variables[i]];
  }
  return term.table->costs[at];
}

Cost ChoiceNetwork::Evaluate(const std::vector<int>& assignment) const {
  return EvaluateFrom(0, assignment);
}

Cost ChoiceNetwork::EvaluateFrom(size_t n, const std::vector<int>& assignment) const {
  Cost cost = 0;
  for (; n < terms_.size(); ++n) cost = AddCosts(cost, Evaluate(terms_[n], assignment));
  return cost;
}

Choices Eliminate(const ChoiceNetwork& network, int64_t max_cells) {
  return Elimination(network, max_cells).Run();
}

Choices Solve(const ChoiceNetwork& network, int64_t max_cells) {
  Choices choices = Eliminate(network, max_cells);
  if (choices.proved()) return choices;
  std::vector<int> last(network.variables());
  for (int v = 0; v < network.variables(); ++v) last[v] = network.domain_size(v) - 1;
  Descend(network, {choices.assignment, std::vector<int>(network.variables(), 0), std::move(last)},
          &choices);
  return choices;
}

}  // namespace oneflow
