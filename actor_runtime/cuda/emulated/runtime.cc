// The entry points of the CUDA runtime.
#include <cuda_runtime.h>

#include <cstring>

#include "actor_runtime/cuda/emulated/grid.h"
#include "actor_runtime/cuda/emulated/machine.h"

namespace oneflow::emulated {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::optional<std::vector<MemoryRange>> next_ports;

// An entry point: body(machine) unless it is to fail, and then some of the work that waits.
template <typename F>
cudaError_t Do(const char* entry, const F& body) {
  Locked machine;
  cudaError_t error = machine->Enter(entry, current_device);
  if (error == cudaSuccess) error = body(machine);
  machine->RunSome();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

// The same for one that takes a stream.
template <typename F>
cudaError_t DoOnStream(const char* entry, cudaStream_t handle, const F& body) {
  return Do(entry, [&](Locked& machine) {
    CUstream_st* stream = machine->Find(handle, current_device);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = machine->error_of(stream->device);
    return error == cudaSuccess ? body(machine, *stream) : error;
  });
}

bool IsValid(const Grid& grid) {
  const size_t threads = size_t{grid.block.x} * grid.block.y * grid.block.z;
  const auto in = [](const dim3& size, unsigned x, unsigned yz) {
    return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= x && size.y <= yz && size.z <= yz;
  };
  return in(grid.blocks, 0x7fffffff, 65535) && in(grid.block, 1024, 1024) && grid.block.z <= 64 &&
         threads <= 1024 && threads % kLanes == 0 && grid.shared_bytes <= kMostSharedBytes;
}

bool MayShare(Machine& machine, const Grid& grid) {
  constexpr size_t kWithoutAsking = 48 << 10;
  if (grid.function == nullptr || grid.shared_bytes <= kWithoutAsking) return true;
  return grid.shared_bytes <= machine.allowed_shared()[{current_device, grid.function}];
}

// True if a copy or fill may touch `bytes` from `memory` on; `device` says in which memory it must
// be.
bool Reaches(Machine& machine, const void* memory, size_t bytes, bool device) {
  const Memory::Region region = machine.memory().Find(memory);
  if (region.kind == Memory::Region::kPageable) return !device;
  return (region.kind == Memory::Region::kDevice) == device && region.bytes >= bytes;
}

bool IsPageable(Machine& machine, const void* memory) {
  return machine.memory().Find(memory).kind == Memory::Region::kPageable;
}

Machine::Wanted ThisStream(const CUstream_st* stream) {
  return [stream](const CUstream_st& other) { return &other == stream; };
}

Machine::Wanted StreamsOnDevice(int device) {
  return [device](const CUstream_st& stream) { return stream.device == device; };
}

// Requires that the record is not done.
Machine::Wanted RecordingStream(const Record& record) { return ThisStream(record.stream); }

void WaitUntilIdle(Locked& machine, int device) {
  machine.RunUntil(StreamsOnDevice(device), [&] { return machine->Idle(device); });
}

cudaError_t Finish(Locked& machine, CUstream_st& stream) {
  machine.RunUntil(ThisStream(&stream), [&] { return stream.items.empty(); });
  return machine->error_of(stream.device);
}

cudaError_t Copy(Locked& machine, CUstream_st& stream, void* to, const void* from, size_t bytes,
                 cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = machine->memory().device_of(to) >= 0;
    from_device = machine->memory().device_of(from) >= 0;
  }
  if (!Reaches(*machine, to, bytes, to_device) || !Reaches(*machine, from, bytes, from_device)) {
    return cudaErrorInvalidValue;
  }
  Item item{.what = "copy"};
  const bool staged = IsPageable(*machine, from), waits = IsPageable(*machine, to);
  if (staged || waits) machine->Forbid("copy of pageable memory");
  if (staged) {  // CUDA takes a copy before it returns.
    const auto* bytes_from = static_cast<const std::byte*>(from);
    auto buffer = std::make_shared<std::vector<std::byte>>(bytes_from, bytes_from + bytes);
    item.run = [=] { return std::memcpy(to, buffer->data(), bytes), std::string(); };
  } else {
    item.run = [=] { return std::memmove(to, from, bytes), std::string(); };
  }
  machine->Enqueue(&stream, std::move(item));
  return waits ? Finish(machine, stream) : cudaSuccess;
}

cudaError_t Fill(Locked& machine, CUstream_st& stream, void* memory, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!Reaches(*machine, memory, bytes, true)) return cudaErrorInvalidValue;
  const auto run = [=] { return std::memset(memory, value, bytes), std::string(); };
  machine->Enqueue(&stream, {.what = "fill", .run = run});
  return cudaSuccess;
}

}  // namespace

int CurrentDevice() { return current_device; }

cudaError_t Launch(const char* name, const Grid& grid, cudaStream_t stream,
                   std::function<void()> thread) {
  auto ports = std::exchange(next_ports, std::nullopt);
  return DoOnStream("cudaLaunchKernel", stream, [&](Locked& machine, CUstream_st& queue) {
    if (!IsValid(grid)) return cudaErrorInvalidConfiguration;
    if (queue.device != current_device) return cudaErrorInvalidResourceHandle;
    if (!MayShare(*machine, grid)) return cudaErrorInvalidValue;
    const KernelOrder order{machine->options().order, machine->Next()};
    machine->Enqueue(
        &queue,
        {.what = name,
         .run = [name = std::string(name), grid, order,
                 thread = std::move(thread)] { return RunGrid(name.c_str(), grid, thread, order); },
         .ports = std::move(ports)});
    return cudaSuccess;
  });
}

cudaError_t AllowShared(const void* function, size_t bytes) {
  return Do("cudaFuncSetAttribute", [&](Locked& machine) {
    if (bytes > kMostSharedBytes) return cudaErrorInvalidValue;
    machine->allowed_shared()[{current_device, function}] = bytes;
    return cudaSuccess;
  });
}

cudaError_t EnqueueHost(cudaStream_t stream, std::string what, std::function<void()> work) {
  auto ports = std::exchange(next_ports, std::nullopt);
  return DoOnStream("EnqueueHost", stream, [&](Locked& machine, CUstream_st& queue) {
    machine->Enqueue(&queue, {.what = std::move(what),
                              .run = [work = std::move(work)] { return work(), std::string(); },
                              .ports = std::move(ports)});
    return cudaSuccess;
  });
}

void LimitPorts(std::span<const MemoryRange> ranges) {
  next_ports.emplace(ranges.begin(), ranges.end());
}

void Reset(const Options& options) {
  Replace(options);
  current_device = 0;
  last_error = cudaSuccess;
  next_ports.reset();
}

size_t AllocatedBytes(int device) { return Locked()->memory().allocated(device); }
size_t PinnedBytes() { return Locked()->memory().pinned(); }
int Connections() { return Locked()->connections(); }
int LiveObjects() { return Locked()->live_objects(); }
void Fail(const std::string& entry, int call, cudaError_t error) {
  Locked()->Fail(entry, call, error);
}
std::map<std::string, int> CallCounts() { return Locked()->counts(); }
std::vector<std::string> Diagnostics() { return Locked()->diagnostics(); }
std::string Stuck() { return Locked()->Stuck(); }
void BeginStep() { Locked()->BeginStep(); }
Step EndStep() { return Locked()->EndStep(); }
bool EnterLibrary(const char* entry) {
  return Locked()->Enter(entry, current_device) == cudaSuccess;
}

}  // namespace oneflow::emulated

using namespace oneflow::emulated;  // NOLINT

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return Do("cudaGetDeviceCount", [&](Locked& machine) {
    *count = machine->options().devices;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  Locked machine;
  if (device < 0 || device >= machine->options().devices) {
    return last_error = cudaErrorInvalidDevice;
  }
  current_device = device;
  return machine->Enter("cudaSetDevice", device);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = 0;
  return Do("cudaDeviceCanAccessPeer", [&](Locked& machine) {
    const int devices = machine->options().devices;
    if (device < 0 || device >= devices || peer < 0 || peer >= devices) {
      return cudaErrorInvalidDevice;
    }
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  return Do("cudaDeviceEnablePeerAccess", [&](Locked& machine) {
    const bool is_peer = peer >= 0 && peer < machine->options().devices && peer != current_device;
    return is_peer ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Do("cudaGetDeviceProperties", [&](Locked& machine) {
    if (device < 0 || device >= machine->options().devices) return cudaErrorInvalidDevice;
    *properties = {.name = "Emulated GPU",
                   .totalGlobalMem = machine->options().memory_bytes,
                   .sharedMemPerBlockOptin = kMostSharedBytes,
                   .major = 9,
                   .minor = 0,
                   .multiProcessorCount = 4};
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return last_error = cudaErrorInvalidValue;
}

cudaError_t cudaDeviceSynchronize() {
  return Do("cudaDeviceSynchronize", [](Locked& machine) {
    WaitUntilIdle(machine, current_device);
    return machine->error_of(current_device);
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return Do("cudaMalloc", [&](Locked& machine) {
    *memory = bytes == 0 ? nullptr : machine->memory().AllocateOnDevice(current_device, bytes);
    return *memory == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  return Do("cudaFree", [&](Locked& machine) {
    if (memory == nullptr) return cudaSuccess;
    const int device = machine->memory().device_of(memory);
    if (device < 0) return cudaErrorInvalidValue;
    WaitUntilIdle(machine, device);
    return machine->memory().FreeOnDevice(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return Do("cudaHostAlloc", [&](Locked& machine) {
    *memory = bytes == 0 ? nullptr : machine->memory().AllocatePinned(bytes);
    return *memory == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return Do("cudaFreeHost", [&](Locked& machine) {
    if (memory == nullptr) return cudaSuccess;
    for (int d = 0; d < machine->options().devices; ++d) WaitUntilIdle(machine, d);
    return machine->memory().FreePinned(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Do("cudaMemGetInfo", [&](Locked& machine) {
    *total_bytes = machine->options().memory_bytes;
    *free_bytes = *total_bytes - machine->memory().allocated(current_device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return DoOnStream("cudaMemcpy", nullptr, [&](Locked& machine, CUstream_st& stream) {
    const auto on_device = [&](const void* memory) {
      return machine->memory().device_of(memory) >= 0;
    };
    // What CUDA documents: it waits for the stream, copies pageable memory aside, and need not wait
    // for the rest; nor for a copy within devices.
    const bool staged = on_device(to) && IsPageable(*machine, from);
    if (staged) Finish(machine, stream);
    const cudaError_t error = Copy(machine, stream, to, from, bytes, kind);
    if (error != cudaSuccess || staged || (on_device(to) && on_device(from))) return error;
    return Finish(machine, stream);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return DoOnStream("cudaMemcpyAsync", handle, [&](Locked& machine, CUstream_st& stream) {
    return Copy(machine, stream, to, from, bytes, kind);
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return DoOnStream("cudaMemset", nullptr, [&](Locked& machine, CUstream_st& stream) {
    return Fill(machine, stream, memory, value, bytes);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t handle) {
  return DoOnStream("cudaMemsetAsync", handle, [&](Locked& machine, CUstream_st& stream) {
    return Fill(machine, stream, memory, value, bytes);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Do("cudaStreamCreateWithFlags", [&](Locked& machine) {
    *stream = machine->NewStream(current_device, (flags & cudaStreamNonBlocking) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Locked machine;
  machine->Enter("cudaStreamDestroy", current_device);
  CUstream_st* stream = machine->Find(handle, current_device);
  if (stream == nullptr || stream->is_default) return last_error = cudaErrorInvalidResourceHandle;
  machine->Destroy(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return DoOnStream("cudaStreamQuery", handle, [](Locked& machine, CUstream_st& stream) {
    machine->Poll(ThisStream(&stream), [&] { return stream.items.empty(); });
    return stream.items.empty() ? machine->error_of(stream.device) : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return DoOnStream("cudaStreamSynchronize", handle, Finish);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return DoOnStream("cudaStreamWaitEvent", handle, [&](Locked& machine, CUstream_st& stream) {
    const CUevent_st* known = machine->Find(event);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    if (known->latest == nullptr) return cudaSuccess;
    machine->Enqueue(&stream,
                     {.what = "cudaStreamWaitEvent",
                      .ready = [record = known->latest] { return record->done; },
                      .run = [] { return std::string(); },
                      .waits_for = [] { return std::string("an event"); },
                      .needs = [record = known->latest] { return std::vector{record->stream}; },
                      .is_work = false});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return DoOnStream("cudaLaunchHostFunc", handle, [&](Locked& machine, CUstream_st& stream) {
    machine->Enqueue(&stream, {.what = "cudaLaunchHostFunc",
                               .run = [=] { return function(argument), std::string(); },
                               .is_work = false});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Do("cudaEventCreateWithFlags", [&](Locked& machine) {
    *event = machine->NewEvent(current_device, (flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Locked machine;
  machine->Enter("cudaEventDestroy", current_device);
  CUevent_st* known = machine->Find(event);
  if (known == nullptr) return last_error = cudaErrorInvalidResourceHandle;
  machine->Destroy(known);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return DoOnStream("cudaEventRecord", handle, [&](Locked& machine, CUstream_st& stream) {
    CUevent_st* known = machine->Find(event);
    if (known == nullptr || known->device != stream.device) return cudaErrorInvalidResourceHandle;
    known->latest = std::make_shared<Record>(Record{.stream = &stream});
    const auto run = [record = known->latest, at = &*machine] {
      record->done = true;
      record->time = at->now();
      return std::string();
    };
    machine->Enqueue(&stream, {.what = "cudaEventRecord", .run = run, .is_work = false});
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Do("cudaEventQuery", [&](Locked& machine) {
    const CUevent_st* known = machine->Find(event);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Record> record = known->latest;
    const int device = known->device;
    if (record != nullptr && !record->done) {
      machine->Poll(RecordingStream(*record), [&] { return record->done; });
    }
    if (record != nullptr && !record->done) return cudaErrorNotReady;
    return machine->error_of(device);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Do("cudaEventElapsedTime", [&](Locked& machine) {
    const CUevent_st *first = machine->Find(start), *last = machine->Find(end);
    for (const CUevent_st* event : {first, last}) {
      if (event == nullptr || !event->timed || event->latest == nullptr) {
        return cudaErrorInvalidResourceHandle;
      }
    }
    if (first->device != last->device) return cudaErrorInvalidResourceHandle;
    if (!first->latest->done || !last->latest->done) return cudaErrorNotReady;
    // An item takes a microsecond.
    const auto items = static_cast<int64_t>(last->latest->time - first->latest->time);
    *milliseconds = static_cast<float>(items) / 1000;
    return machine->error_of(first->device);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Do("cudaEventSynchronize", [&](Locked& machine) {
    const CUevent_st* known = machine->Find(event);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Record> record = known->latest;
    const int device = known->device;
    if (record != nullptr && !record->done) {
      machine.RunUntil(RecordingStream(*record), [&] { return record->done; });
    }
    return machine->error_of(device);
  });
}
