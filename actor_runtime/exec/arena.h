// Arena: the one block of memory of a device and memory kind, mapped at load and unmapped at the
// end. It is not an allocator: the plan gives every register its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace oneflow {

class Arena {
 public:
  // Returns zeroed memory; it is page-aligned, so every multiple of 64 in it is 64-byte aligned.
  // bytes >= 0.
  static absl::StatusOr<Arena> Create(int64_t bytes);
  Arena() = default;
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace oneflow
