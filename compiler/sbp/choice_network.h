// Variables with a few labels each, and tables of costs over a few variables each: which labels
// cost least together? Part of infer_sbp; it knows no SBP.
//
//   ChoiceNetwork network;
//   const int a = network.AddVariable(2), b = network.AddVariable(3);
//   network.AddTerm({a, b}, std::make_shared<const CostTable>(CostTable{{2, 3}, {9, 4, 4, 1, 7,
//   2}})); const Choices best = Solve(network);   // label {1, 0}, cost 1, bound 1
//
// Costs are whole numbers, so that equal sums are equal whatever their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace oneflow {

using Cost = int64_t;
// What must not be. Sums with it stay at it; all other sums must stay below.
inline constexpr Cost kNever = int64_t{1} << 60;
inline Cost AddCosts(Cost a, Cost b) { return a + b < kNever ? a + b : kNever; }

// Row-major over the labels of its variables, the last one fastest.
struct CostTable {
  std::vector<int> sizes;  // labels of each variable
  std::vector<Cost> costs;
  bool operator==(const CostTable&) const = default;
};

class ChoiceNetwork {
 public:
  struct Term {
    std::vector<int> variables;  // ascending, distinct
    std::shared_ptr<const CostTable> table;
  };

  int AddVariable(int labels);
  // Requires ascending, distinct variables, and a table of their sizes. Terms that share a table
  // are known to be alike: Solve works such parts out once.
  void AddTerm(std::vector<int> variables, std::shared_ptr<const CostTable> table);

  int variables() const { return static_cast<int>(labels_.size()); }
  int labels(int variable) const { return labels_[variable]; }
  const std::vector<Term>& terms() const { return terms_; }
  // Of a label for every variable.
  Cost CostOf(const std::vector<int>& label) const;
  Cost CostOf(const Term& term, const std::vector<int>& label) const;
  // The same of the terms from the n-th on alone.
  Cost CostFrom(size_t n, const std::vector<int>& label) const;

 private:
  std::vector<int> labels_;
  std::vector<Term> terms_;
};

struct Choices {
  std::vector<int> label;
  Cost cost = 0;
  Cost bound = 0;  // no choice costs less; cost == bound: a proved optimum
  bool proved() const { return cost == bound; }
};

// The cheapest labels, by variable elimination: the variable whose table is smallest goes first and
// leaves a table of the least costs over its neighbours. Exact, and in time that grows with the
// number of different tables, not with how often they occur: layers that are alike cost one.
//
// A variable whose table would have more than `max_cells` is eliminated from parts of its terms,
// each by itself: that gives the bound, and labels that descent (choice_descent.h) then improves.
//
// Eliminate alone: the bound, and labels that are the best where it is proved.
Choices Eliminate(const ChoiceNetwork& network, int64_t max_cells);
Choices Solve(const ChoiceNetwork& network, int64_t max_cells = int64_t{1} << 21);

}  // namespace oneflow
