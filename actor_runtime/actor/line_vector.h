// LineVector: a std::vector that shares no cache line with other data, so that a thread that writes
// it does not slow down other threads.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace oneflow {

template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr size_t kLine = 64;

  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(size_t n) {
    const size_t bytes = (n * sizeof(T) + kLine - 1) / kLine * kLine;
    return static_cast<T*>(::operator new (bytes, std::align_val_t{kLine}));
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{kLine}); }
  bool operator==(const LineAllocator&) const = default;
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace oneflow
