// Checks the contents of a cluster file (proto/cluster.proto).
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Every number is finite and not negative, and those that belong together agree. `where`, the file,
// begins the error, which names the field.
absl::Status CheckCluster(const proto::Cluster& cluster, std::string_view where);

}  // namespace oneflow
