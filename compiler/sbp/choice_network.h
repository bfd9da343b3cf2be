// Weighted constraint satisfaction: variables with small domains, and cost tables over a few
// variables each. Solve finds the assignment of the least total cost by bucket elimination. If a
// table would grow too large, it uses mini-bucket elimination (Dechter & Rish, "Mini-buckets: a
// general scheme for bounded inference", J. ACM 50(2), 2003). Part of infer_sbp; it knows no SBP.
//
//   ChoiceNetwork network;
//   const int a = network.AddVariable(2), b = network.AddVariable(3);
//   const CostTable table = {{2, 3}, {9, 4, 4, 1, 7, 2}};
//   network.AddTerm({a, b}, std::make_shared<const CostTable>(table));
//   const Choices best = Solve(network);  // assignment {1, 0}, cost 1, bound 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "compiler/sbp/cost.h"

namespace oneflow {

// A cost table, row-major over the values of its variables, the last one fastest.
struct CostTable {
  std::vector<int> sizes;  // domain size of each variable
  std::vector<Cost> costs;
  bool operator==(const CostTable&) const = default;
};

class ChoiceNetwork {
 public:
  struct Term {
    std::vector<int> variables;  // ascending, distinct
    std::shared_ptr<const CostTable> table;
  };

  int AddVariable(int domain_size);
  // Requires ascending, distinct variables, and a table of their sizes. Terms may share a table:
  // Solve processes equal subproblems once.
  void AddTerm(std::vector<int> variables, std::shared_ptr<const CostTable> table);

  int variables() const { return static_cast<int>(domain_sizes_.size()); }
  int domain_size(int variable) const { return domain_sizes_[variable]; }
  const std::vector<Term>& terms() const { return terms_; }
  // The cost of an assignment: one value for each variable.
  Cost Evaluate(const std::vector<int>& assignment) const;
  Cost Evaluate(const Term& term, const std::vector<int>& assignment) const;
  // The cost of the terms from the n-th on only.
  Cost EvaluateFrom(size_t n, const std::vector<int>& assignment) const;

 private:
  std::vector<int> domain_sizes_;
  std::vector<Term> terms_;
};

struct Choices {
  std::vector<int> assignment;
  Cost cost = 0;
  Cost bound = 0;  // no assignment costs less; cost == bound: a proved optimum
  bool proved() const { return cost == bound; }
};

// Bucket elimination: the variable whose bucket has the smallest table is eliminated first and
// leaves a table of least costs (a message) over its neighbours. The result is exact. The time
// grows with the number of different tables, not with how often they occur: equal layers cost one.
//
// If the table of a bucket would have more than `max_cells` cells, the bucket is divided into
// mini-buckets, and the variable is eliminated from each of them separately. The result is a lower
// bound, and an assignment that descent (choice_descent.h) then improves.
//
// Runs elimination without the descent. Its assignment is optimal if `proved()`. If it is not, four
// times as many cells are tried, in at most `rounds` rounds. The result is the cheapest assignment
// of all rounds, the first of equals, and their largest bound. Rounds after the first end early if
// their tables have more than `all_cells` cells; tables of undivided buckets do not count.
Choices Eliminate(const ChoiceNetwork& network, int64_t max_cells, int rounds = 1,
                  int64_t all_cells = std::numeric_limits<int64_t>::max());
Choices Solve(const ChoiceNetwork& network, int64_t max_cells = int64_t{1} << 21);

}  // namespace oneflow
