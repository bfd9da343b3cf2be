// The control service of a worker process: what launchers and monitors ask it over gRPC.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// What the worker tells about itself.
struct WorkerDescription {
  std::string version;
  int ranks = 0;
};

class ControlServer {
 public:
  // Starts to serve. `address` is "host:port"; port 0 takes a free one, see port().
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& address,
                                                              const WorkerDescription& worker);

  // Ends calls under way and stops.
  virtual ~ControlServer() = default;

  virtual int port() const = 0;
};

}  // namespace oneflow
