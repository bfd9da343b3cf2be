// Calibrate: measures this machine: what its kernels, memory, actors and messages cost. The result
// is a cluster file (proto/cluster.proto) that `compile --cluster=` takes.
//
// Levels of the topology: "process", devices that share a memory. With several processes also
// "host", processes of one host, over what the transport takes there (shared memory); and
// "network", hosts, over TCP. Both are measured between two processes of this host, one direction
// while the other is as busy.
//
// It measures; it predicts nothing. Other work on the machine affects the result.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct CalibrateOptions {
  int threads = 1;    // kernel threads of a device
  int devices = 1;    // of this machine, each with so many; all work while kernels are timed
  int processes = 1;  // of this machine, each with as many of its devices; they divide them
  std::string interface = "lo";  // network device of TCP between processes
  double seconds = 20;           // to spend, about
  // Before each measurement: its number from 0, how many there are, and what it is.
  std::function<void(int number, int of, const std::string& what)> progress;
};

// With several processes: requires that the caller has no other thread (far_pair.h).
absl::StatusOr<proto::Cluster> Calibrate(const CalibrateOptions& options);

}  // namespace oneflow
