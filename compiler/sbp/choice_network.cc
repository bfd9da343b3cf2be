#include "compiler/sbp/choice_network.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>

#include "compiler/sbp/choice_descent.h"
#include "compiler/sbp/cost_rows.h"
#include "compiler/sbp/least_sums.h"
#include "compiler/sbp/table_store.h"

namespace oneflow {
namespace {

// FNV-1a over integers.
template <typename T>
uint64_t Hash(const std::vector<T>& values) {
  uint64_t hash = 1469598103934665603u;
  for (const T value : values) hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211u;
  return hash;
}

// The table that replaces a mini-bucket once its variable is eliminated: the least costs, minus
// `least`, the smallest of them. Subtracting it makes messages of equal layers equal.
struct Message {
  int table = -1;
  Cost least = 0;
};

struct KeyHash {
  size_t operator()(const std::vector<int>& key) const { return Hash(key); }
};

// The messages that are known, each a function of its key. With a base, those of that one, and
// more.
struct Messages {
  explicit Messages(const Messages* base = nullptr)
      : base(base), tables(base == nullptr ? nullptr : &base->tables) {}

  const Message* Find(const std::vector<int>& key) const {
    const auto at = known.find(key);
    if (at != known.end()) return &at->second;
    return base == nullptr ? nullptr : base->Find(key);
  }
  void Clear() {
    known.clear();
    tables.Clear();
  }

  const Messages* const base;
  TableStore tables;
  std::unordered_map<std::vector<int>, Message, KeyHash> known;
  LeastSums least_sums;
};

// An elimination on its way. A copy of it can go on in another way.
class Elimination {
 public:
  // Both must outlive this.
  Elimination(const ChoiceNetwork& network, Messages* messages)
      : network_(network),
        messages_(messages),
        factors_of_(network.variables()),
        eliminated_(network.variables(), false),
        seen_(network.variables(), 0) {
    std::unordered_map<const CostTable*, int> known;
    for (const ChoiceNetwork::Term& term : network.terms()) {
      if (term.variables.empty()) {
        bound_ = AddCosts(bound_, term.table->costs[0]);
        continue;
      }
      const auto [it, fresh] = known.try_emplace(term.table.get(), -1);
      if (fresh) it->second = messages_->tables.Intern(*term.table);
      AddFactor(term.variables, it->second);
    }
    weight_.resize(network_.variables());
    for (int v = 0; v < network_.variables(); ++v) queue_.push({weight_[v] = Weight(v), v});
  }

  // A copy that goes on with the messages of `messages`, whose base are those of this one.
  Elimination Fork(Messages* messages) const {
    Elimination fork = *this;
    fork.messages_ = messages;
    fork.cells_ = 0;
    return fork;
  }

  // Eliminates the next variables, as long as no bucket must be divided: what every elimination
  // with at least `max_cells` starts with. True if all are eliminated.
  bool EliminateUndivided(int64_t max_cells) {
    while (FindNext()) {
      if (queue_.top().first > static_cast<double>(max_cells)) return false;
      EliminateNext(max_cells);
    }
    return true;
  }

  // Eliminates all other variables; none if the tables of that have more than `all_cells` cells.
  std::optional<Choices> Finish(int64_t max_cells, int64_t all_cells) {
    while (FindNext()) {
      EliminateNext(max_cells);
      if (cells_ > all_cells) return std::nullopt;
    }
    Choices choices{std::vector<int>(network_.variables(), 0), 0, bound_};
    for (size_t i = order_.size(); i-- > 0;) {
      choices.assignment[order_[i]] = BestValue(order_[i], choices.assignment);
    }
    choices.cost = network_.Evaluate(choices.assignment);
    return choices;
  }

 private:
  // A table over variables_[first, first + count), ascending.
  struct Factor {
    int first = 0, count = 0;
    int table = -1;     // its index in the TableStore
    bool used = false;  // its bucket was eliminated
  };
  using Queued = std::pair<double, int>;  // weight, variable

  std::span<const int> Variables(int f) const {
    return {variables_.data() + factors_[f].first, static_cast<size_t>(factors_[f].count)};
  }

  void AddFactor(const std::vector<int>& variables, int table) {
    const int id = static_cast<int>(factors_.size());
    for (const int v : variables) factors_of_[v].push_back(id);
    factors_.push_back(
        {static_cast<int>(variables_.size()), static_cast<int>(variables.size()), table});
    variables_.insert(variables_.end(), variables.begin(), variables.end());
  }

  // The variables of these factors, each once, in any order. Valid until the next call.
  const std::vector<int>& Collect(const std::vector<int>& factors) {
    ++time_;
    scope_.clear();
    for (const int f : factors) {
      for (const int v : Variables(f)) {
        if (seen_[v] == time_) continue;
        seen_[v] = time_;
        scope_.push_back(v);
      }
    }
    return scope_;
  }
  // The same, ascending.
  std::vector<int> Scope(const std::vector<int>& factors) {
    std::vector<int> scope = Collect(factors);
    std::sort(scope.begin(), scope.end());
    return scope;
  }

  double Product(const std::vector<int>& scope) const {
    double cells = 1;
    for (const int v : scope) cells *= network_.domain_size(v);
    return cells;
  }

  // The cells of a table over the variables of these factors. What a double does not hold exactly
  // is rounded as in ascending order.
  double Cells(const std::vector<int>& factors) {
    constexpr double kExact = static_cast<double>(int64_t{1} << 53);
    const double cells = Product(Collect(factors));
    return cells < kExact ? cells : Product(Scope(factors));
  }

  double Weight(int v) { return Cells(factors_of_[v]); }

  // Makes the variable of the least weight the first of the queue; false if there is none.
  bool FindNext() {
    while (!queue_.empty()) {
      const auto [weight, v] = queue_.top();
      if (!eliminated_[v] && weight == weight_[v]) return true;
      queue_.pop();
    }
    return false;
  }

  void EliminateNext(int64_t max_cells) {
    const int v = queue_.top().second;
    queue_.pop();
    Eliminate(v, max_cells);
    eliminated_[v] = true;
    order_.push_back(v);
  }

  // The factors of `v`, divided into mini-buckets whose tables have at most `max_cells` cells. One
  // bucket is exact. First fit: a factor joins the first mini-bucket that stays small enough.
  std::vector<std::vector<int>> MiniBuckets(int v, int64_t max_cells) {
    if (weight_[v] <= static_cast<double>(max_cells)) return {factors_of_[v]};
    std::vector<std::vector<int>> buckets;
    for (const int f : factors_of_[v]) {
      bool added = false;
      for (std::vector<int>& bucket : buckets) {
        bucket.push_back(f);
        added = Cells(bucket) <= static_cast<double>(max_cells);
        if (added) break;
        bucket.pop_back();
      }
      if (!added) buckets.push_back({f});
    }
    return buckets;
  }

  void Eliminate(int v, int64_t max_cells) {
    std::vector<std::pair<std::vector<int>, int>> messages;  // variables, table
    for (const std::vector<int>& bucket : MiniBuckets(v, max_cells)) {
      std::vector<int> scope = Scope(bucket);
      const Message message = ComputeMessage(bucket, scope, v);
      bound_ = AddCosts(bound_, message.least);
      std::erase(scope, v);
      if (!scope.empty()) messages.emplace_back(std::move(scope), message.table);
    }
    const std::vector<int>& of_v = factors_of_[v];
    for (const int f : of_v) factors_[f].used = true;
    std::vector<int> neighbours = Scope(of_v);
    std::erase(neighbours, v);
    for (const int u : neighbours) {
      std::erase_if(factors_of_[u], [&](int f) { return factors_[f].used; });
    }
    for (const auto& [variables, table] : messages) AddFactor(variables, table);
    for (const int u : neighbours) {
      const double weight = Weight(u);
      if (weight == weight_[u]) continue;
      queue_.push({weight_[u] = weight, u});
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
      for (const int u : Variables(f)) {
        key.push_back(
            static_cast<int>(std::lower_bound(scope.begin(), scope.end(), u) - scope.begin()));
      }
    }
    if (const Message* known = messages_->Find(key)) return *known;
    return messages_->known.emplace(key, MinimizeOver(bucket, scope, v)).first->second;
  }

  Message MinimizeOver(const std::vector<int>& bucket, const std::vector<int>& scope, int v) {
    std::vector<int> order = {v};
    std::vector<int> sizes;
    size_t cells = 1;
    for (const int u : scope) {
      if (u == v) continue;
      order.push_back(u);
      sizes.push_back(network_.domain_size(u));
      cells *= sizes.back();
    }
    std::vector<WalkedTable> tables;
    for (const int f : bucket) {
      const TableStore::Table& table = messages_->tables[factors_[f].table];
      WalkedTable& walked = tables.emplace_back();
      walked.costs = table.costs;
      walked.strides.assign(order.size(), 0);
      int stride = 1;
      for (size_t i = table.sizes.size(); i-- > 0;) {
        const auto at = std::find(order.begin(), order.end(), Variables(f)[i]) - order.begin();
        walked.strides[at] = stride;
        stride *= table.sizes[i];
      }
    }
    cells_ += static_cast<int64_t>(cells);
    Cost* const least = messages_->tables.Room(cells);
    messages_->least_sums.Find(network_.domain_size(v), sizes, tables, least);
    const Cost smallest = FindLeast(least, cells);
    const uint64_t hash = SubtractAndHash(smallest, cells, least);
    return {messages_->tables.Intern(sizes, least, cells, hash), smallest};
  }

  // The first of the best values of `v`, given those of the variables that were eliminated later.
  int BestValue(int v, std::vector<int>& assignment) const {
    int best = 0;
    Cost least = 0;
    for (int l = 0; l < network_.domain_size(v); ++l) {
      assignment[v] = l;
      Cost sum = 0;
      for (const int f : factors_of_[v]) {
        const TableStore::Table& table = messages_->tables[factors_[f].table];
        const std::span<const int> variables = Variables(f);
        int64_t at = 0;
        for (size_t i = 0; i < table.sizes.size(); ++i) {
          at = at * table.sizes[i] + assignment[variables[i]];
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
  Messages* messages_;
  std::vector<int> variables_;  // of the factors
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> factors_of_;  // of an eliminated variable: its bucket
  std::vector<double> weight_;                // cells of the table over a bucket's variables
  // The least weight first; entries of eliminated variables and of earlier weights are void.
  std::priority_queue<Queued, std::vector<Queued>, std::greater<Queued>> queue_;
  std::vector<bool> eliminated_;
  std::vector<int> order_;  // in which variables were eliminated
  Cost bound_ = 0;
  int64_t cells_ = 0;          // of tables that were computed
  std::vector<int64_t> seen_;  // when Collect saw a variable
  int64_t time_ = 0;
  std::vector<int> scope_, key_;  // scratch of Collect and ComputeMessage
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

Choices Eliminate(const ChoiceNetwork& network, int64_t max_cells, int rounds, int64_t all_cells) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  Messages messages, of_round(&messages);
  Elimination common(network, &messages);
  std::optional<Choices> best;
  for (; rounds > 0 && !(best && best->proved()); --rounds, max_cells *= 4) {
    const bool all = common.EliminateUndivided(max_cells);
    of_round.Clear();
    const int64_t most = best && !all ? all_cells : kNoLimit;
    std::optional<Choices> next =
        all ? common.Finish(max_cells, most) : common.Fork(&of_round).Finish(max_cells, most);
    if (!next) break;
    const Cost bound = std::max(best ? best->bound : next->bound, next->bound);
    if (!best || next->cost < best->cost) best = std::move(next);
    best->bound = bound;
    if (all) break;
  }
  return *std::move(best);
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
