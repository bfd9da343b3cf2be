// Memory of the emulated devices, and pinned memory of the host.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"

namespace oneflow::emulated {

// New memory holds NaNs. Device memory of each device is one reserved range. Not thread-safe.
class Memory {
 public:
  // guard: outside of Open and Close, touching device memory ends the program.
  Memory(int devices, size_t bytes_each, bool guard);
  ~Memory();
  Memory(const Memory&) = delete;

  // nullptr if it does not fit.
  void* AllocateOnDevice(int device, size_t bytes);
  void* AllocatePinned(size_t bytes);
  // False if AllocateOnDevice did not return `memory`.
  bool FreeOnDevice(void* memory);
  bool FreePinned(void* memory);

  struct Region {
    enum { kPageable, kPinned, kDevice } kind = kPageable;
    int device = -1;
    size_t bytes = 0;  // from there to the end of the allocation
  };
  Region Find(const void* memory) const;
  // True if a device of the machine holds all of it.
  bool OnDevice(const void* memory, size_t bytes, int device) const;

  int device_of(const void* memory) const { return Find(memory).device; }
  size_t allocated(int device) const { return devices_[device].allocated; }
  size_t pinned() const { return pinned_bytes_; }
  int count() const;

  // Between Open and Close device memory may be touched: only `ports`, if AddressSanitizer is on
  // and ports is not null.
  void Open(const std::vector<MemoryRange>* ports);
  void Close();

 private:
  struct Device {
    std::byte* begin = nullptr;
    size_t used = 0;       // bytes of the range, from its begin, that have ever been allocated
    size_t allocated = 0;  // bytes of allocations
    std::map<std::byte*, size_t> blocks;
  };
  void Protect(bool open);

  const size_t bytes_each_;
  const size_t reserved_each_;
  const bool guard_;
  bool limited_ = false;
  std::vector<Device> devices_;
  std::map<std::byte*, size_t> pinned_;
  size_t pinned_bytes_ = 0;
};

}  // namespace oneflow::emulated
