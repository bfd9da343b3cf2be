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

const Cost* CostArena::Copy(const Cost* costs, size_t count) {
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
    pieces_.emplace_back(static_cast<Cost*>(memory));
    next_ = pieces_.back().get();
    left_ = piece / sizeof(Cost);
  }
  Cost* const copy = next_;
  std::copy_n(costs, count, copy);
  next_ += count;
  left_ -= count;
  return copy;
}

int TableStore::Intern(const std::vector<int>& sizes, const std::vector<Cost>& costs,
                       uint64_t hash) {
  std::vector<int>& candidates = by_hash_[hash];
  for (const int id : candidates) {
    const Table& table = tables_[id];
    if (table.sizes == sizes && std::equal(costs.begin(), costs.end(), table.costs)) return id;
  }
  candidates.push_back(static_cast<int>(tables_.size()));
  tables_.push_back({sizes, arena_.Copy(costs.data(), costs.size())});
  return candidates.back();
}

int TableStore::Intern(const CostTable& table) {
  return Intern(table.sizes, table.costs, HashCosts(table.costs.data(), table.costs.size()));
}

}  // namespace oneflow
