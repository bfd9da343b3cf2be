// Asks a worker's control service.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "actor_runtime/control/server.h"

namespace oneflow {

// What the worker at `address` ("host:port") tells about itself.
absl::StatusOr<WorkerDescription> DescribeWorker(const std::string& address,
                                                 absl::Duration timeout);

}  // namespace oneflow
