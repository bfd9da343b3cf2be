// Calibrate: measures this machine: what its kernels, memory, actors and messages cost. The result
// is a cluster file (proto/cluster.proto) that `compile --cluster=` takes.
//
// It measures; it predicts nothing. What else runs on the machine is measured, too.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct CalibrateOptions {
  int threads = 1;      // kernel threads of a device
  int devices = 1;      // of this machine, each with so many; all work while kernels are timed
  double seconds = 20;  // to spend, about
  // Before each measurement: its number from 0, how many there are, and what it is.
  std::function<void(int number, int of, const std::string& what)> progress;
};

absl::StatusOr<proto::Cluster> Calibrate(const CalibrateOptions& options);

}  // namespace oneflow
