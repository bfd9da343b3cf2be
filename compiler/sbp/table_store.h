// Stores the tables of an elimination, each distinct one once. Part of choice_network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Costs that live as long as this object, in few large pieces of memory.
class CostArena {
 public:
  CostArena() = default;
  CostArena(const CostArena&) = delete;
  CostArena& operator=(const CostArena&) = delete;

  // Room for `count` costs, until the next call; Keep keeps it.
  Cost* Room(size_t count);
  void Keep(size_t count);
  // Gives up all costs; their memory is used again.
  void Clear();

 private:
  struct Free {
    void operator()(Cost* piece) const;
  };
  struct Piece {
    std::unique_ptr<Cost, Free> costs;
    size_t count = 0;
  };
  std::vector<Piece> pieces_;
  size_t used_ = 0;  // of pieces_; the last of them is in use
  Cost* next_ = nullptr;
  size_t left_ = 0;  // costs from next_ on
};

// Has the tables of its `base`, if any, and more.
class TableStore {
 public:
  explicit TableStore(const TableStore* base = nullptr) : base_(base) { Clear(); }

  struct Table {
    std::vector<int> sizes;  // as in CostTable
    const Cost* costs = nullptr;
  };

  // Room for the costs of a new table.
  Cost* Room(size_t count) { return arena_.Room(count); }
  // The id of the table whose costs are in the room of the last call. `hash`: of the costs,
  // by SubtractAndHash (cost_rows.h).
  int Intern(const std::vector<int>& sizes, const Cost* room, size_t count, uint64_t hash);
  int Intern(const CostTable& table);
  // Forgets all tables but those of the base. Required whenever tables were added to the base.
  void Clear();
  // A table. Valid until the next table is added; its costs, as long as this object.
  const Table& operator[](int id) const {
    return id < first_ ? (*base_)[id] : tables_[id - first_];
  }

 private:
  int Find(const std::vector<int>& sizes, const Cost* costs, size_t count, uint64_t hash) const;

  const TableStore* base_;
  int first_ = 0;  // the number of tables of the base
  CostArena arena_;
  std::vector<Table> tables_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;
};

}  // namespace oneflow
