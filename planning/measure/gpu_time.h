// Measures calls on an asynchronous device by the events of its streams: kernels, copies from and
// to the host, the gaps between launches, exchanges between devices. Each measurement makes devices
// of its own and gives them back.
//
//   ASSIGN_OR_RETURN(const GpuTime t, TimeOnGpu(backend, {"gelu", {{{1024, 3072}}}}, 0.1));
//   double bandwidth = t.bytes / t.seconds;
//
// It measures the card in its present state, including its clocks and other users.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/device_backend.h"
#include "planning/measure/timed_op.h"

namespace oneflow {

struct GpuTime {
  double seconds = 0;       // of a call, the median; at least a nanosecond
  double host_seconds = 0;  // of a call, until the host knew that it was over
  double flops = 0, bytes = 0;
};

// One call of the kernel that a plan of the op runs, on rank 0; for about `budget` seconds, at
// least three times. NOT_FOUND or UNIMPLEMENTED where there is no kernel for these types;
// RESOURCE_EXHAUSTED where it needs more than half of the memory that is free.
absl::StatusOr<GpuTime> TimeOnGpu(const DeviceBackend& backend, const TimedOp& op, double budget);

// The same for a copy of so many bytes: `kind` is copy_in, from pinned memory of the host, or
// copy_out, to it.
absl::StatusOr<GpuTime> TimeHostCopy(const DeviceBackend& backend, const std::string& kind,
                                     int64_t bytes, double budget);

// Seconds between two short kernels that are launched one after the other, beside the kernels: what
// a launch costs.
absl::StatusOr<double> TimeLaunch(const DeviceBackend& backend, double budget);

// An all-gather of `bytes` from each of the first `ranks` ranks, 2 or more, whose exchanges a
// library carries: GpuTime::bytes are those that a rank receives.
absl::StatusOr<GpuTime> TimeAllGather(const DeviceBackend& backend, int ranks, int64_t bytes,
                                      double budget);

}  // namespace oneflow
