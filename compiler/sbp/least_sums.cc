#include "compiler/sbp/least_sums.h"

#include <algorithm>

#include "compiler/sbp/cost_rows.h"

namespace oneflow {
namespace {

// Cells of a block, at most.
constexpr int64_t kBlock = 128;

}  // namespace

// True if the table has all of the block's variables.
bool LeastSums::HasRows(const WalkedTable& table) const {
  int64_t length = 1;
  for (size_t i = sizes_->size(); i > outer_; --i) {
    if ((*sizes_)[i - 1] > 1 && table.strides[i] != length) return false;
    length *= (*sizes_)[i - 1];
  }
  return true;
}

void LeastSums::WriteOut(const WalkedTable& table, size_t level) {
  Rows& rows = levels_[level].rows.emplace_back();
  if (HasRows(table)) {
    rows.costs = table.costs;
    rows.strides.assign(table.strides.begin(),
                        table.strides.begin() + static_cast<ptrdiff_t>(outer_) + 1);
    return;
  }
  std::vector<int> size(outer_ + 1, 1);
  for (size_t i = 0; i <= outer_; ++i) {
    if (table.strides[i] != 0) size[i] = i == 0 ? values_ : (*sizes_)[i - 1];
  }
  rows.strides.assign(outer_ + 1, 0);
  int64_t length = block_;
  for (size_t i = outer_ + 1; i-- > 0;) {
    if (table.strides[i] == 0) continue;
    rows.strides[i] = length;
    length *= size[i];
  }
  if (used_ == written_.size()) written_.emplace_back();
  std::vector<Cost>& written = written_[used_++];
  if (static_cast<int64_t>(written.size()) < length) written.resize(length);
  Write(table, size, 0, table.costs, written.data());
  rows.costs = written.data();
}

// Writes the table from variable i on; returns the end of what it wrote.
Cost* LeastSums::Write(const WalkedTable& table, const std::vector<int>& size, size_t i,
                       const Cost* from, Cost* to) const {
  if (i == table.strides.size()) {
    *to = *from;
    return to + 1;
  }
  const int n = i <= outer_ ? size[i] : (*sizes_)[i - 1];
  const int64_t stride = table.strides[i];
  if (stride == 0) {
    Cost* end = Write(table, size, i + 1, from, to);
    const int64_t length = end - to;
    for (int copy = 1; copy < n; ++copy) end = std::copy_n(to, length, end);
    return end;
  }
  if (i + 1 == table.strides.size()) {
    for (int value = 0; value < n; ++value) *to++ = from[value * stride];
    return to;
  }
  for (int value = 0; value < n; ++value) to = Write(table, size, i + 1, from + value * stride, to);
  return to;
}

void LeastSums::Divide(const std::vector<WalkedTable>& tables) {
  outer_ = sizes_->size();
  block_ = 1;
  while (outer_ > 0 && block_ * (*sizes_)[outer_ - 1] <= kBlock) block_ *= (*sizes_)[--outer_];
  if (levels_.size() < outer_ + 1) levels_.resize(outer_ + 1);
  for (size_t level = 0; level <= outer_; ++level) {
    levels_[level].scalars.clear();
    levels_[level].rows.clear();
  }
  used_ = 0;
  for (const WalkedTable& table : tables) {
    size_t last = 0;
    for (size_t i = 0; i <= outer_; ++i) {
      if (table.strides[i] != 0) last = i;
    }
    const bool in_block = std::any_of(table.strides.begin() + static_cast<ptrdiff_t>(outer_) + 1,
                                      table.strides.end(), [](int s) { return s != 0; });
    if (in_block) {
      WriteOut(table, last);
    } else {
      levels_[last].scalars.push_back({&table, 0});
    }
  }
  for (size_t level = 0; level <= outer_; ++level) {
    Level& at = levels_[level];
    at.sums.resize(values_);
    // The innermost loop adds the last rows itself, unless they are too many.
    const size_t own = level == outer_ ? kMostRows - 1 : 0;
    at.has_blocks = at.rows.size() > own;
    if (at.has_blocks && static_cast<int64_t>(at.blocks.size()) < values_ * block_) {
      at.blocks.resize(values_ * block_);
    }
    at.base = at.has_blocks ? at.blocks.data() : level > 0 ? levels_[level - 1].base : nullptr;
  }
}

// Adds up, for each value, what the variables up to `level` decide.
void LeastSums::Enter(size_t level) {
  Level& at = levels_[level];
  for (int value = 0; value < values_; ++value) {
    Cost sum = level > 0 ? levels_[level - 1].sums[value] : 0;
    for (const Scalars& scalars : at.scalars) {
      sum = AddCosts(sum,
                     scalars.table->costs[scalars.at + int64_t{value} * scalars.table->strides[0]]);
    }
    at.sums[value] = sum;
    if (!at.has_blocks || sum >= kForbidden) continue;
    Cost* const block = at.blocks.data() + value * block_;
    const Cost* base = level > 0 ? levels_[level - 1].base : nullptr;
    if (base != nullptr) base += value * block_;
    for (const Rows& rows : at.rows) {
      const Cost* const row = rows.costs + rows.at + value * rows.strides[0];
      if (base != nullptr) {
        AddRows(base, row, block_, block);
      } else {
        std::copy_n(row, block_, block);
      }
      base = block;
    }
  }
}

void LeastSums::Walk(size_t level) {
  Enter(level);
  if (level == outer_) return LowerBlock();
  const int size = (*sizes_)[level];
  for (int value = 0; value < size; ++value) {
    Walk(level + 1);
    Move(level + 1, 1);
  }
  Move(level + 1, -size);
}

void LeastSums::Move(size_t variable, int64_t by) {
  for (size_t level = variable; level <= outer_; ++level) {
    for (Scalars& scalars : levels_[level].scalars) {
      scalars.at += by * scalars.table->strides[variable];
    }
    for (Rows& rows : levels_[level].rows) rows.at += by * rows.strides[variable];
  }
}

void LeastSums::LowerBlock() {
  const Level& last = levels_[outer_];
  std::fill_n(out_, block_, kForbidden);
  for (int value = 0; value < values_; ++value) {
    const Cost sum = last.sums[value];
    if (sum >= kForbidden) continue;
    const Cost* rows[kMostRows];
    size_t count = 0;
    if (last.base != nullptr) rows[count++] = last.base + value * block_;
    if (!last.has_blocks) {
      for (const Rows& own : last.rows) {
        rows[count++] = own.costs + own.at + value * own.strides[0];
      }
    }
    LowerToSums(sum, rows, count, block_, out_);
  }
  out_ += block_;
}

void LeastSums::Find(int values, const std::vector<int>& sizes,
                     const std::vector<WalkedTable>& tables, Cost* least) {
  values_ = values;
  sizes_ = &sizes;
  Divide(tables);
  out_ = least;
  Walk(0);
}

}  // namespace oneflow
