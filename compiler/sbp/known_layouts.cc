#include "compiler/sbp/known_layouts.h"

#include <utility>

namespace oneflow {

std::optional<PackedLayouts> KnownLayouts::Find(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = layouts_.find(key);
  if (known == layouts_.end()) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  return known->second;
}

void KnownLayouts::Add(std::string key, PackedLayouts layouts) {
  size_t bytes = key.size() + layouts.sbps.size();
  for (const std::string& note : layouts.notes) bytes += note.size();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes_ + bytes > most_bytes_) {
    layouts_.clear();
    bytes_ = 0;
  }
  if (bytes > most_bytes_) return;
  if (layouts_.try_emplace(std::move(key), std::move(layouts)).second) bytes_ += bytes;
}

int64_t KnownLayouts::hits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hits_;
}

int64_t KnownLayouts::misses() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return misses_;
}

}  // namespace oneflow
