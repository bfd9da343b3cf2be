// How `oneflow train` comes by the other processes of its run, as flags and environment say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/data/token_dataset.h"
#include "actor_runtime/job/job.h"
#include "actor_runtime/job/place.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"
#include "tools/oneflow/job_report.h"
#include "tools/oneflow/job_watch.h"
#include "tools/oneflow/processes/launch.h"
#include "tools/oneflow/processes/processes.h"

namespace oneflow {

// This process among others; one alone has neither.
struct Together {
  std::optional<Children> children;  // that this process has started; they go last
  std::unique_ptr<Processes> processes;
};

// Which process of how many this is, by --coordinator, --process_index, --processes, or by what a
// launcher has set.
absl::StatusOr<JobPlace> PlaceFromFlags();

// What must be the same in all processes: the plan, what training does, the data, this program and
// its kernels.
absl::StatusOr<std::vector<JoinFact>> FactsOfRun(const proto::Plan& plan,
                                                 const proto::Optimizer& optimizer,
                                                 const TokenSplit& data, const std::string& isa);

// Joins the others; where nobody else has started them (--processes=N alone), starts them.
// Nothing for a process alone.
// `watch`: takes what the processes note; it outlives them.
absl::StatusOr<Together> JoinFromFlags(const JobPlace& place, const proto::Plan& plan,
                                       std::vector<JoinFact> facts, JobWatch* watch);

// Ends what was begun together: with `status`, of this process, or a good end. Returns the outcome
// of all, which `report` has now. It is quiet in all processes but the one that tells it.
absl::Status LeaveTogether(Together together, const absl::Status& status, JobReport& report);

}  // namespace oneflow
