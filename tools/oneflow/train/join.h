// Joins `oneflow train` with the other processes of its run.
#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/host_limits.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/job/job.h"
#include "training/job/placement.h"
#include "training/trainer/job_report.h"
#include "training/trainer/job_watch.h"
#include "training/trainer/processes/launch.h"
#include "training/trainer/processes/processes.h"

namespace oneflow {

// This process among others, or alone.
struct Together {
  std::optional<Children> children;  // that this process has started; they go last
  std::unique_ptr<ProcessGroup> group;
  KernelKills kills_before;  // it joined
};

// True if `plan`, of --plan, is a file that does not exist here, but may exist at process 0.
bool PlanIsElsewhere(const JobPlacement& placement, const std::string& plan);

// Joins the others, if there are any; where nobody else has started them (--processes=N alone),
// starts them. `plan`: null if it is elsewhere. An error is reported as by CannotJoin.
// `watch`: takes what the processes note; it outlives them.
absl::StatusOr<Together> JoinOthers(const JobPlacement& placement, const proto::Run& run,
                                    const proto::Plan* plan, std::vector<JoinFact> facts,
                                    JobReport& report, JobWatch* watch);

// All processes call it once they have joined, with what JoinOthers got. Process 0's plan goes to
// those that have none, where `path` does not exist: returns it there, and nothing elsewhere.
absl::StatusOr<std::optional<proto::Plan>> SharePlan(ProcessGroup& group, const proto::Plan* plan,
                                                     const std::string& path);

// Ends what was begun together: with `status`, of this process, or a good end. Returns the outcome
// of all, which `report` has now. If processes write to one terminal or file, it has no message in
// all but one. After a loss it does not return: it prints the outcome and ends the process, for
// what is left of links may wait for a process that hangs.
absl::Status LeaveTogether(Together together, const absl::Status& status, JobReport& report);

// A library may wait for a process which is gone, and nothing of ours wakes it: one of devices, or
// of links. If this process still runs some time after the attempt has ended, LastResort leaves
// instead, and ends the process. From joining until LeaveTogether.
class LastResort {
 public:
  LastResort(Together& together, JobReport& report);
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

 private:
  std::jthread watcher_;
};

// This process cannot join: those that wait for it hear why, if they are there within some seconds.
// Returns `status` with the process's name, and leaves it with `report`, but if process 0 does so,
// or goes on without this one. It has no message if another process prints it at the same place.
absl::Status CannotJoin(const JobPlacement& placement, const proto::Run& run, absl::Status status,
                        JobReport& report);

}  // namespace oneflow
