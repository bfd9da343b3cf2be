#include "compiler/sbp/known_choices.h"

#include <utility>

namespace oneflow {
namespace {

// Seven bits a byte, the lowest first.
void Append(uint64_t number, std::string* bytes) {
  for (; number >= 128; number >>= 7) bytes->push_back(static_cast<char>(128 | (number & 127)));
  bytes->push_back(static_cast<char>(number));
}

}  // namespace

size_t KnownChoices::TableHash::operator()(const CostTable* table) const {
  uint64_t hash = table->sizes.size();
  for (const Cost cost : table->costs) {
    hash = (hash ^ static_cast<uint64_t>(cost)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t KnownChoices::TableId(const std::shared_ptr<const CostTable>& table) {
  const auto [it, fresh] = table_ids_.try_emplace(table.get(), next_table_);
  if (fresh) {
    ++next_table_;
    bytes_ += table->costs.size() * sizeof(Cost);
    tables_.push_back(table);
  }
  return it->second;
}

std::string KnownChoices::Key(const ChoiceNetwork& network, const std::vector<int>& how) {
  std::string key;
  Append(how.size(), &key);
  for (const int number : how) Append(static_cast<uint64_t>(number), &key);
  Append(network.variables(), &key);
  for (int v = 0; v < network.variables(); ++v) Append(network.domain_size(v), &key);
  std::unordered_map<const CostTable*, uint64_t> ids;  // many terms share a table
  for (const ChoiceNetwork::Term& term : network.terms()) {
    const auto [id, fresh] = ids.try_emplace(term.table.get(), 0);
    if (fresh) id->second = TableId(term.table);
    Append(id->second, &key);
    int before = 0;
    for (const int v : term.variables) {
      Append(static_cast<uint64_t>(v - before), &key);
      before = v;
    }
  }
  return key;
}

Choices KnownChoices::Find(const ChoiceNetwork& network, const std::vector<int>& how,
                           const std::function<Choices()>& search) {
  std::string key;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes_ > most_bytes_) {
      choices_.clear();
      table_ids_.clear();
      tables_.clear();
      bytes_ = 0;
    }
    key = Key(network, how);
    const auto known = choices_.find(key);
    if (known != choices_.end()) {
      ++hits_;
      return known->second;
    }
    ++misses_;
  }
  Choices choices = search();
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t bytes = key.size() + choices.assignment.size() * sizeof(int);
  if (choices_.try_emplace(std::move(key), choices).second) bytes_ += bytes;
  return choices;
}

int64_t KnownChoices::hits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hits_;
}

int64_t KnownChoices::misses() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return misses_;
}

}  // namespace oneflow
