#include "actor_runtime/device/counted_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
thread_local int64_t allocations_of_thread = 0;

void Count() {
  allocations.fetch_add(1, std::memory_order_relaxed);
  ++allocations_of_thread;
}
}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  Count();
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  std::abort();
}
void* operator new(size_t size, std::align_val_t align) {
  Count();
  const auto a = static_cast<size_t>(align);
  if (void* memory = std::aligned_alloc(a, (size + a - 1) / a * a)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace oneflow {

int64_t Allocations() { return allocations; }
int64_t ThreadAllocations() { return allocations_of_thread; }

}  // namespace oneflow
