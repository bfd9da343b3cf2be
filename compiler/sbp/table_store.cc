#include "compiler/sbp/table_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "compiler/sbp/cost_rows.h"

namespace oneflow {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kLeastPiece = size_t{1} << 16, kMostPiece = size_t{1} << 24;

}  // namespace

void CostArena::Free::operator()(Cost* piece) const { std::free(piece); }

Cost* CostArena::Room(size_t count) {
  while (count > left_ && used_ < pieces_.size()) {
    next_ = pieces_[used_].costs.get();
    left_ = pieces_[used_++].count;
  }
  if (count > left_) {
    const size_t bytes = count * sizeof(Cost);
    size_t piece = kLeastPiece << std::min<size_t>(pieces_.size(), 8);
    piece = std::max(std::min(piece, kMostPiece), bytes);
    const size_t alignment = piece < kHugePage ? alignof(std::max_align_t) : kHugePage;
    piece = (piece + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, piece);
    if (memory == nullptr) throw std::bad_alloc();
    // Of usual pages, the first touch of each takes longer than to fill it.
    if (alignment == kHugePage) madvise(memory, piece, MADV_HUGEPAGE);
    next_ = static_cast<Cost*>(memory);
    left_ = piece / sizeof(Cost);
    pieces_.push_back({std::unique_ptr<Cost, Free>(next_), left_});
    used_ = pieces_.size();
  }
  return next_;
}

void CostArena::Keep(size_t count) {
  next_ += count;
  left_ -= count;
}

void CostArena::Clear() {
  used_ = 0;
  left_ = 0;
}

void TableStore::Clear() {
  first_ = base_ == nullptr ? 0 : base_->first_ + static_cast<int>(base_->tables_.size());
  tables_.clear();
  by_hash_.clear();
  arena_.Clear();
}

// -1: none.
int TableStore::Find(const std::vector<int>& sizes, const Cost* costs, size_t count,
                     uint64_t hash) const {
  const auto candidates = by_hash_.find(hash);
  if (candidates != by_hash_.end()) {
    for (const int id : candidates->second) {
      const Table& table = (*this)[id];
      if (table.sizes == sizes && std::equal(costs, costs + count, table.costs)) return id;
    }
  }
  return base_ == nullptr ? -1 : base_->Find(sizes, costs, count, hash);
}

int TableStore::Intern(const std::vector<int>& sizes, const Cost* room, size_t count,
                       uint64_t hash) {
  const int known = Find(sizes, room, count, hash);
  if (known >= 0) return known;
  arena_.Keep(count);
  tables_.push_back({sizes, room});
  const int id = first_ + static_cast<int>(tables_.size()) - 1;
  by_hash_[hash].push_back(id);
  return id;
}

int TableStore::Intern(const CostTable& table) {
  const size_t count = table.costs.size();
  Cost* const room = Room(count);
  std::copy_n(table.costs.data(), count, room);
  return Intern(table.sizes, room, count, SubtractAndHash(0, count, room));
}

}  // namespace oneflow
