// The page of a plan that is simulated on a cluster (explain_page.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

absl::StatusOr<std::string> SimulatedPage(const proto::Cluster& cluster, const proto::Plan& plan,
                                          std::string_view program, int64_t steps);

}  // namespace oneflow
