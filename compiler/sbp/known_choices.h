// Choices that were found before, by the content of their networks. Compilations that differ in
// their schedule or in what they recompute have equal networks, and a search of plans compiles many
// of those. It knows no SBP.
//
//   auto known = std::make_shared<KnownChoices>();
//   const Choices choices = known->Find(network, {}, [&] { return Solve(network); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Thread-safe.
class KnownChoices {
 public:
  // If about this many bytes are kept, all are forgotten.
  explicit KnownChoices(size_t most_bytes = size_t{1} << 30) : most_bytes_(most_bytes) {}

  // What `search` returned when it was called for an equal network and an equal `how`; else what
  // it returns now. Networks are equal if their domain sizes and their terms are, in their order:
  // they are compared in full. `search` must be a function of the network and of `how` alone.
  Choices Find(const ChoiceNetwork& network, const std::vector<int>& how,
               const std::function<Choices()>& search);

  // How often a search was spared, and how often not.
  int64_t hits() const;
  int64_t misses() const;

 private:
  struct TableHash {
    size_t operator()(const CostTable* table) const;
  };
  struct TableEqual {
    bool operator()(const CostTable* a, const CostTable* b) const { return *a == *b; }
  };

  // The network and `how` as bytes; equal ones have equal bytes.
  std::string Key(const ChoiceNetwork& network, const std::vector<int>& how);
  uint64_t TableId(const std::shared_ptr<const CostTable>& table);

  const size_t most_bytes_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  int64_t hits_ = 0, misses_ = 0;
  uint64_t next_table_ = 0;                               // no id is given twice
  std::vector<std::shared_ptr<const CostTable>> tables_;  // the keys of table_ids_
  std::unordered_map<const CostTable*, uint64_t, TableHash, TableEqual> table_ids_;
  std::unordered_map<std::string, Choices> choices_;
};

}  // namespace oneflow
