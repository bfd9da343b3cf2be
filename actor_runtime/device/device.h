// Device: one that runs by itself. What its streams are given they run in order while the host goes
// on, and they wait for each other on the device. A device has the memory and the streams of one
// rank of a plan. A CPU is none: its worker computes itself.
//
// Launch n of a stream is the n-th that it was given in a run: everything between Record(n - 1) and
// Record(n).
//
//   RETURN_IF_ERROR(stream->WaitFor(*other, 3));    // after launch 3 of another stream
//   ... kernels and copies on stream->handle() ...
//   RETURN_IF_ERROR(stream->Record(7));             // that was launch 7
//   ASSIGN_OR_RETURN(bool over, stream->IsOver(7)); // asked without waiting
//
// A stream that tells times has Begin(7) before the kernels of launch 7, and TimesOf(7) once it is
// over.
//
// No call of a stream blocks, allocates or synchronises. Errors name what failed; one that a launch
// made may come with a later call.
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
  // What kernels are launched on: KernelCall::stream.
  virtual void* handle() const = 0;
  // What is given from now on comes after `launch` of `other`, a stream of the same device. That is
  // one of the last `queue` launches of it.
  virtual absl::Status WaitFor(const DeviceStream& other, int64_t launch) = 0;
  // Ends launch `launch`. Requires that `launch` - queue is over.
  virtual absl::Status Record(int64_t launch) = 0;
  // Of one of the last `queue` launches.
  virtual absl::StatusOr<bool> IsOver(int64_t launch) = 0;

  // Of a stream that tells times. What comes next belongs to launch `launch`; no wait does.
  virtual absl::Status Begin(int64_t launch) = 0;
  // The same. Of a launch that is over, asked of all launches since StartClock, in their order,
  // each as soon as it is known to be over.
  virtual absl::StatusOr<LaunchTimes> TimesOf(int64_t launch) = 0;

  // Between streams of several ranks: what `other` was given before its last Mark comes first.
  virtual absl::Status Mark() = 0;
  virtual absl::Status WaitForMark(const DeviceStream& other) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // To be called by every thread before it uses the device, its streams or kernels on them.
  virtual absl::Status Attach() = 0;
  // Zeros, 64-byte aligned; given back with the device. Once for each kind of memory.
  virtual absl::StatusOr<std::byte*> Allocate(proto::MemoryKind kind, int64_t bytes) = 0;
  // A stream that has at most `queue` launches given and not over. `timed`: it tells times.
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> MakeStream(int queue, bool timed) = 0;
  // Launches of streams that tell times are numbered from 0 again. Waits. At rest only.
  virtual absl::Status StartClock() = 0;
  // Waits until all streams have run what they were given. At rest only.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace oneflow
