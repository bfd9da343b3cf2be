// The inner loop of elimination: a sum of tables, minimised over one variable. Part of
// choice_network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// A table over some of the variables of a sum.
struct WalkedTable {
  const Cost* costs = nullptr;
  // The distance to the next value of each variable, the minimised one first; 0: the table lacks
  // the variable. Among the others a later variable has a smaller distance, as in a row-major
  // table.
  std::vector<int> strides;
};

// The last variables form one block, which fits the first-level cache. A table with some of them is
// written out over all of them, so that the innermost loop adds rows of contiguous costs. The part
// of the sum that depends on the variables before the last one is added up once for all its values.
//
// Buffers are kept from one call to the next.
class LeastSums {
 public:
  // Finds, by the values of the other variables, row-major, the least sum of all tables over the
  // `values` values of the minimised one, at most kForbidden. `least` has a cell for each
  // combination.
  void Find(int values, const std::vector<int>& sizes, const std::vector<WalkedTable>& tables,
            Cost* least);

 private:
  // A table over the block's variables: rows of the block's length, one for each value of its other
  // variables.
  struct Rows {
    const Cost* costs = nullptr;
    std::vector<int64_t> strides;  // of the other variables, in cells; the minimised one first
    int64_t at = 0;                // the row of the walk, for the first of the values
  };
  // A table without variables of the block.
  struct Scalars {
    const WalkedTable* table = nullptr;
    int64_t at = 0;
  };
  // The terms that are added when a variable has changed: the tables of which it is the last one
  // before the block. Level 0 has the tables without such a variable.
  struct Level {
    std::vector<Scalars> scalars;
    std::vector<Rows> rows;
    std::vector<Cost> sums;    // of all scalars up to here, by value
    std::vector<Cost> blocks;  // of all rows up to here, by value
    bool has_blocks = false;
    const Cost* base = nullptr;  // the blocks of this level or of one before it; null: none
  };

  void Divide(const std::vector<WalkedTable>& tables);
  bool HasRows(const WalkedTable& table) const;
  void WriteOut(const WalkedTable& table, size_t level);
  Cost* Write(const WalkedTable& table, const std::vector<int>& size, size_t i, const Cost* from,
              Cost* to) const;
  void Enter(size_t level);
  void Walk(size_t level);
  void Move(size_t variable, int64_t by);
  void LowerBlock();

  int values_ = 0;
  const std::vector<int>* sizes_ = nullptr;
  size_t outer_ = 0;   // variables before the block
  int64_t block_ = 1;  // its cells
  std::vector<Level> levels_;
  std::vector<std::vector<Cost>> written_;
  size_t used_ = 0;  // of written_
  Cost* out_ = nullptr;
};

}  // namespace oneflow
