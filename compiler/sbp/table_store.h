// The tables of an elimination, each distinct one once. Part of choice_network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Costs that live as long as this does, in few large pieces of memory.
class CostArena {
 public:
  CostArena() = default;
  CostArena(const CostArena&) = delete;
  CostArena& operator=(const CostArena&) = delete;

  // A copy of `count` costs.
  const Cost* Copy(const Cost* costs, size_t count);

 private:
  struct Free {
    void operator()(Cost* piece) const;
  };
  std::vector<std::unique_ptr<Cost, Free>> pieces_;
  Cost* next_ = nullptr;
  size_t left_ = 0;  // costs from next_ on
};

class TableStore {
 public:
  struct Table {
    std::vector<int> sizes;  // as in CostTable
    const Cost* costs = nullptr;
  };

  // The id of the table. `hash`: of the costs, by HashCosts (cost_rows.h).
  int Intern(const std::vector<int>& sizes, const std::vector<Cost>& costs, uint64_t hash);
  int Intern(const CostTable& table);
  // Valid until the next table is added; its costs, as long as this.
  const Table& operator[](int id) const { return tables_[id]; }

 private:
  CostArena arena_;
  std::vector<Table> tables_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;
};

}  // namespace oneflow
