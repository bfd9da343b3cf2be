// How `oneflow train` comes by the other processes of its run, as flags and environment say.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "actor_runtime/job/place.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"
#include "tools/oneflow/processes/launch.h"
#include "tools/oneflow/processes/processes.h"

namespace oneflow {

// This process among others; one process alone has neither.
struct Together {
  std::optional<Children> children;  // that this process has started; they end after `processes`
  std::unique_ptr<Processes> processes;
};

// Which process of how many this is; nothing for one alone, which --processes=N makes process 0.
absl::StatusOr<JobPlace> PlaceFromFlags();

// Joins the others, having started them where nobody else has. What changes a run must be the same
// everywhere: the plan, the optimizer, the data, flags. `tokens`: of the data.
absl::StatusOr<Together> JoinFromFlags(const JobPlace& place, const proto::Plan& plan,
                                       const proto::Optimizer& optimizer, int64_t tokens,
                                       const std::string& isa);

}  // namespace oneflow
