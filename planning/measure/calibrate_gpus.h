// CalibrateGpus: measures the GPUs of this machine: kernels by type and size, memory, launches,
// copies from and to the host, and the link between GPUs where there are several. The result is a
// cluster file (proto/cluster.proto) that compile and simulate take.
//
// Each kernel is timed from small calls to large ones, until a call takes longer than its share of
// the time to spend, or memory ends: so on a slow device large calls are left out.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/device_backend.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct GpuCalibrateOptions {
  int gpus = 1;         // ranks of the backend, a GPU each; all are taken to be like the first
  double seconds = 20;  // to spend, about
  // Before each measurement: its number from 0, how many there are, and what it is.
  std::function<void(int number, int of, const std::string& what)> progress;
};

// For one GPU the cluster has no level: nothing is known about links.
absl::StatusOr<proto::Cluster> CalibrateGpus(const DeviceBackend& backend,
                                             const GpuCalibrateOptions& options);

}  // namespace oneflow
