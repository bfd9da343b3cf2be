// ProcessGroup: the processes of a training run as its loop sees them, whatever carries their
// messages. processes.h joins those of a job; the simulated cluster in tests has another.
//
//   RETURN_IF_ERROR(group->Run("train", context, steps, 1));      the same runs in all processes
//   if (group->stopped()) ... the last run ended early, in all of them after the same step ...
//   ASSIGN_OR_RETURN(std::string answer, group->Round("checkpoint", part, merge));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"

namespace oneflow {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual bool IsFirst() const = 0;  // process 0

  // A run of the sequence that all processes make. Reports to context.report arrive at process 0,
  // from all processes: `reports` a step of the run. There it returns when all have arrived.
  virtual absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                           int64_t reports) = 0;
  // True if all have agreed that the runs end after the last one.
  virtual bool stopped() const = 0;

  // All call it, in the same order. process 0's function makes of the parts, by process, what all
  // get. Its error is a failure of process 0, and ends all.
  using Merge = std::function<absl::StatusOr<std::string>(std::span<const std::string> by_process)>;
  virtual absl::StatusOr<std::string> Round(const std::string& name, std::string part,
                                            const Merge& merge) = 0;

  // Returns when all processes have come here.
  absl::Status Meet(const std::string& name) {
    return Round(name, "", [](std::span<const std::string>) { return std::string(); }).status();
  }
};

}  // namespace oneflow
