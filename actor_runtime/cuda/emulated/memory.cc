#include "actor_runtime/cuda/emulated/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "glog/logging.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* begin, size_t size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t size);
}

namespace oneflow::emulated {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kRedZone = 256;  // between allocations, and before the first
constexpr size_t kPage = 4096;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void Poison(const void* begin, size_t bytes) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(begin, bytes);
}
void Unpoison(const void* begin, size_t bytes) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(begin, bytes);
}

// The allocation that holds `at`, or end().
std::map<std::byte*, size_t>::const_iterator Owner(const std::map<std::byte*, size_t>& blocks,
                                                   std::byte* at) {
  auto after = blocks.upper_bound(at);
  if (after == blocks.begin()) return blocks.end();
  const auto block = std::prev(after);
  return at < block->first + block->second ? block : blocks.end();
}

}  // namespace

Memory::Memory(int devices, size_t bytes_each, bool guard)
    : bytes_each_(bytes_each),
      // Room for red zones and for gaps that no new allocation fits in.
      reserved_each_(RoundUp(2 * bytes_each, kPage) + (size_t{16} << 20)),
      guard_(guard),
      devices_(devices) {
  for (Device& device : devices_) {
    void* range = mmap(nullptr, reserved_each_, guard ? PROT_NONE : PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PCHECK(range != MAP_FAILED) << "memory of an emulated device";
    device.begin = static_cast<std::byte*>(range);
  }
}

Memory::~Memory() {
  for (Device& device : devices_) {
    Unpoison(device.begin, device.used);
    munmap(device.begin, reserved_each_);
  }
  for (const auto& [begin, bytes] : pinned_) std::free(begin);
}

void* Memory::AllocateOnDevice(int index, size_t bytes) {
  Device& device = devices_[index];
  if (device.allocated + bytes > bytes_each_) return nullptr;
  std::byte* at = device.begin + kRedZone;
  for (const auto& [begin, size] : device.blocks) {
    if (at + bytes + kRedZone <= begin) break;
    at = begin + RoundUp(size, kAlignment) + kRedZone;
  }
  if (at + bytes + kRedZone > device.begin + reserved_each_) return nullptr;
  device.blocks.emplace(at, bytes);
  device.allocated += bytes;
  const size_t end = RoundUp(at + bytes + kRedZone - device.begin, kPage);
  if (end > device.used) {
    Poison(device.begin + device.used, end - device.used);
    device.used = end;
  }
  Unpoison(at, bytes);
  Open(nullptr);
  std::memset(at, 0xff, bytes);
  Close();
  return at;
}

void* Memory::AllocatePinned(size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, RoundUp(bytes, kPage)));
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0xff, bytes);
  pinned_.emplace(memory, bytes);
  pinned_bytes_ += bytes;
  return memory;
}

bool Memory::FreeOnDevice(void* memory) {
  for (Device& device : devices_) {
    const auto block = device.blocks.find(static_cast<std::byte*>(memory));
    if (block == device.blocks.end()) continue;
    Poison(block->first, block->second);
    device.allocated -= block->second;
    device.blocks.erase(block);
    return true;
  }
  return false;
}

bool Memory::FreePinned(void* memory) {
  const auto block = pinned_.find(static_cast<std::byte*>(memory));
  if (block == pinned_.end()) return false;
  pinned_bytes_ -= block->second;
  std::free(block->first);
  pinned_.erase(block);
  return true;
}

Memory::Region Memory::Find(const void* memory) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(memory));
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    if (at < device.begin || at >= device.begin + reserved_each_) continue;
    const auto block = Owner(device.blocks, at);
    const bool found = block != device.blocks.end();
    return {Region::kDevice, static_cast<int>(i),
            found ? static_cast<size_t>(block->first + block->second - at) : 0};
  }
  const auto block = Owner(pinned_, at);
  if (block == pinned_.end()) return {};
  return {Region::kPinned, -1, static_cast<size_t>(block->first + block->second - at)};
}

bool Memory::OnDevice(const void* memory, size_t bytes, int device) const {
  const Region region = Find(memory);
  return region.kind == Region::kDevice && region.device == device && region.bytes >= bytes;
}

int Memory::count() const {
  size_t count = pinned_.size();
  for (const Device& device : devices_) count += device.blocks.size();
  return static_cast<int>(count);
}

void Memory::Protect(bool open) {
  for (const Device& device : devices_) {
    if (device.used == 0) continue;
    PCHECK(mprotect(device.begin, device.used, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  }
}

void Memory::Open(const std::vector<MemoryRange>* ports) {
  if (guard_) Protect(true);
  limited_ = ports != nullptr && __asan_poison_memory_region;
  if (!limited_) return;
  for (const Device& device : devices_) Poison(device.begin, device.used);
  for (const MemoryRange& port : *ports) Unpoison(port.begin, port.bytes);
}

void Memory::Close() {
  if (limited_) {
    for (const Device& device : devices_) {
      Poison(device.begin, device.used);
      for (const auto& [begin, bytes] : device.blocks) Unpoison(begin, bytes);
    }
  }
  if (guard_) Protect(false);
}

}  // namespace oneflow::emulated
