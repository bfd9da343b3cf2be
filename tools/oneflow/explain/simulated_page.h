// The page of a plan, or of its price, simulated on a cluster (explain_page.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/plan_flags.h"

namespace oneflow {

absl::StatusOr<std::string> SimulatedPage(const proto::Cluster& cluster, const PricedPlan& priced,
                                          std::string_view program, int64_t steps,
                                          std::string_view live_script = "");

}  // namespace oneflow
