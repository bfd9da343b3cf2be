// A cache of chosen layouts, by everything that the choice depends on. Compilations that differ in
// their schedule or in their recomputation choose the same layouts, and a search of plans makes
// many of those.
//
//   const std::string key = LayoutKey(graph, options);
//   if (const auto known = options.known_layouts->Find(key)) return Unpack(*known, &graph);
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace oneflow {

// The SBPs of all tensors and of all inputs of ops, packed; and the notes of the choice.
struct PackedLayouts {
  std::string sbps;
  std::vector<std::string> notes;
};

// Thread-safe.
class KnownLayouts {
 public:
  // If about this many bytes are kept, all are forgotten.
  explicit KnownLayouts(size_t most_bytes = size_t{1} << 30) : most_bytes_(most_bytes) {}

  std::optional<PackedLayouts> Find(const std::string& key);
  void Add(std::string key, PackedLayouts layouts);

  // Counts the calls of Find that found something, and those that did not.
  int64_t hits() const;
  int64_t misses() const;

 private:
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  int64_t hits_ = 0, misses_ = 0;
  std::unordered_map<std::string, PackedLayouts> layouts_;
};

}  // namespace oneflow
