#include "compiler/sbp/least_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace oneflow {
namespace {

// Cells of a block, at most: a few rows of it stay in the first cache.
constexpr int64_t kBlock = 512;

// A table over the block's variables: rows of the block's length, one for each value of its other
// variables.
struct Rows {
  const Cost* costs = nullptr;
  std::vector<Cost> written;     // the costs, unless the table itself has such rows
  std::vector<int64_t> strides;  // of the other variables, in cells; the minimised one first
};

class Sum {
 public:
  Sum(int values, const std::vector<int>& sizes, std::vector<WalkedTable> tables)
      : values_(values), sizes_(sizes), outer_(sizes.size()) {
    while (outer_ > 0 && block_ * sizes[outer_ - 1] <= kBlock) block_ *= sizes[--outer_];
    levels_.resize(outer_ + 1);
    for (WalkedTable& table : tables) {
      const bool in_block = std::any_of(table.strides.begin() + static_cast<ptrdiff_t>(outer_) + 1,
                                        table.strides.end(), [](int s) { return s != 0; });
      if (in_block) {
        rows_.push_back(WriteOut(table));
      } else {
        size_t last = 0;
        for (size_t i = 0; i <= outer_; ++i) {
          if (table.strides[i] != 0) last = i;
        }
        levels_[last].push_back(static_cast<int>(tables_.size()));
        tables_.push_back(std::move(table));
      }
    }
    table_at_.resize(tables_.size());
    row_at_.resize(rows_.size());
  }

  std::vector<Cost> Minimise() && {
    int64_t cells = block_;
    for (size_t i = 0; i < outer_; ++i) cells *= sizes_[i];
    least_.assign(cells, kForbidden);
    for (int value = 0; value < values_; ++value) {
      for (size_t t = 0; t < tables_.size(); ++t) {
        table_at_[t] = int64_t{value} * tables_[t].strides[0];
      }
      for (size_t r = 0; r < rows_.size(); ++r) row_at_[r] = value * rows_[r].strides[0];
      out_ = least_.data();
      Walk(0, AddLevel(0, 0));
    }
    return std::move(least_);
  }

 private:
  // True if the table has all of the block's variables.
  bool HasRows(const WalkedTable& table) const {
    int64_t length = 1;
    for (size_t i = sizes_.size(); i > outer_; --i) {
      if (sizes_[i - 1] > 1 && table.strides[i] != length) return false;
      length *= sizes_[i - 1];
    }
    return true;
  }

  Rows WriteOut(const WalkedTable& table) const {
    Rows rows{table.costs, {}, {table.strides.begin(), table.strides.begin() + outer_ + 1}};
    if (HasRows(table)) return rows;
    rows.strides.assign(outer_ + 1, 0);
    std::vector<int> size(outer_ + 1, 1);
    for (size_t i = 0; i <= outer_; ++i) {
      if (table.strides[i] != 0) size[i] = i == 0 ? values_ : sizes_[i - 1];
    }
    int64_t length = block_;
    for (size_t i = outer_ + 1; i-- > 0;) {
      if (size[i] == 1 && table.strides[i] == 0) continue;
      rows.strides[i] = length;
      length *= size[i];
    }
    rows.written.reserve(length);
    WriteLevel(table, size, 0, table.costs, &rows.written);
    rows.costs = rows.written.data();
    return rows;
  }

  void WriteLevel(const WalkedTable& table, const std::vector<int>& size, size_t i,
                  const Cost* from, std::vector<Cost>* costs) const {
    if (i == table.strides.size()) {
      costs->push_back(*from);
      return;
    }
    const int n = i <= outer_ ? size[i] : sizes_[i - 1];
    if (i + 1 == table.strides.size()) {
      for (int value = 0; value < n; ++value) {
        costs->push_back(from[int64_t{value} * table.strides[i]]);
      }
      return;
    }
    for (int value = 0; value < n; ++value) {
      WriteLevel(table, size, i + 1, from + int64_t{value} * table.strides[i], costs);
    }
  }

  Cost AddLevel(size_t level, Cost sum) const {
    for (const int t : levels_[level]) sum = AddCosts(sum, tables_[t].costs[table_at_[t]]);
    return sum;
  }

  void Walk(size_t level, Cost sum) {
    if (level == outer_) return AddBlock(sum);
    const int size = sizes_[level];
    for (int value = 0; value < size; ++value) {
      Walk(level + 1, AddLevel(level + 1, sum));
      Move(level + 1, 1);
    }
    Move(level + 1, -size);
  }

  void Move(size_t variable, int64_t by) {
    for (size_t t = 0; t < tables_.size(); ++t) table_at_[t] += by * tables_[t].strides[variable];
    for (size_t r = 0; r < rows_.size(); ++r) row_at_[r] += by * rows_[r].strides[variable];
  }

  void AddBlock(Cost sum) {
    Cost* const out = out_;
    out_ += block_;
    if (sum >= kForbidden) return;
    const auto row = [this](size_t r) { return rows_[r].costs + row_at_[r]; };
    // A sum of fewer than eight costs of at most kForbidden does not overflow.
    if (rows_.size() == 1) {
      const Cost* const a = row(0);
      for (int64_t i = 0; i < block_; ++i) out[i] = std::min(out[i], sum + a[i]);
    } else if (rows_.size() == 2) {
      const Cost *const a = row(0), *const b = row(1);
      for (int64_t i = 0; i < block_; ++i) out[i] = std::min(out[i], sum + a[i] + b[i]);
    } else if (rows_.size() == 3) {
      const Cost *const a = row(0), *const b = row(1), *const c = row(2);
      for (int64_t i = 0; i < block_; ++i) out[i] = std::min(out[i], sum + a[i] + b[i] + c[i]);
    } else {
      sums_.assign(block_, sum);
      for (size_t r = 0; r < rows_.size(); ++r) {
        const Cost* const a = row(r);
        for (int64_t i = 0; i < block_; ++i) sums_[i] = AddCosts(sums_[i], a[i]);
      }
      for (int64_t i = 0; i < block_; ++i) out[i] = std::min(out[i], sums_[i]);
    }
  }

  const int values_;
  const std::vector<int>& sizes_;
  size_t outer_;                          // variables before the block
  int64_t block_ = 1;                     // cells
  std::vector<WalkedTable> tables_;       // without variables of the block
  std::vector<Rows> rows_;                // the others
  std::vector<std::vector<int>> levels_;  // of tables_, by their last variable
  std::vector<int64_t> table_at_, row_at_;
  std::vector<Cost> least_, sums_;
  Cost* out_ = nullptr;
};

}  // namespace

std::vector<Cost> LeastSums(int values, const std::vector<int>& sizes,
                            std::vector<WalkedTable> tables) {
  return Sum(values, sizes, std::move(tables)).Minimise();
}

}  // namespace oneflow
