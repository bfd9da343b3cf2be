// Device: an asynchronous device. Its streams run their launches in the order given while the host
// goes on, and they wait for each other on the device. A device has the memory and the streams of
// one rank of a plan. A CPU has no Device: its worker computes on the host.
//
// Launch n of a stream is the n-th launch that it was given in a run: everything between Record(n -
// 1) and Record(n).
//
//   RETURN_IF_ERROR(stream->WaitFor(*other, 3));    // after launch 3 of another stream
//   ... kernels and copies on stream->handle() ...
//   RETURN_IF_ERROR(stream->Record(7));             // that was launch 7
//   ASSIGN_OR_RETURN(bool over, stream->IsOver(7)); // asked without waiting
//
// A timed stream has Begin(7) before the kernels of launch 7, and ReadTimes(7) once it is over.
//
// No call of a stream blocks, allocates or synchronises. Errors name the call that failed; an error
// that a launch made may come with a later call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// When a launch ran on the device, in nanoseconds of the host's steady clock.
struct LaunchTimes {
  int64_t begin_ns = 0, end_ns = 0;
};

// Calls from one thread at a time.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  // The handle on which kernels are launched: KernelCall::stream.
  virtual void* handle() const = 0;
  // All that is given from now on comes after `launch` of `other`, a stream of the same device.
  // Requires one of the last `queue` launches of `other`.
  virtual absl::Status WaitFor(const DeviceStream& other, int64_t launch) = 0;
  // Ends launch `launch`. Requires that `launch` - queue is over.
  virtual absl::Status Record(int64_t launch) = 0;
  // Requires one of the last `queue` launches.
  virtual absl::StatusOr<bool> IsOver(int64_t launch) = 0;

  // For a timed stream. Kernels that follow belong to launch `launch`; waits do not.
  virtual absl::Status Begin(int64_t launch) = 0;
  // For a timed stream. Requires a launch that is over. The caller asks for all launches since
  // StartClock, in their order, each as soon as it is known to be over.
  virtual absl::StatusOr<LaunchTimes> ReadTimes(int64_t launch) = 0;

  // For streams of several ranks: all that `other` was given before its last Mark comes first.
  virtual absl::Status Mark() = 0;
  virtual absl::Status WaitForMark(const DeviceStream& other) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // Every thread calls this before it uses the device, its streams or kernels on them.
  virtual absl::Status Attach() = 0;
  // Returns zeroed memory, 64-byte aligned; it is freed with the device. Called once for each kind
  // of memory.
  virtual absl::StatusOr<std::byte*> Allocate(proto::MemoryKind kind, int64_t bytes) = 0;
  // Makes a stream with at most `queue` launches that are given and not over. `timed`: it has
  // times.
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> MakeStream(int queue, bool timed) = 0;
  // Launches of timed streams are numbered from 0 from now on. Waits. Requires that no launch is
  // running.
  virtual absl::Status StartClock() = 0;
  // Waits until all streams have run all their launches. Requires that no launch is being given.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace oneflow
