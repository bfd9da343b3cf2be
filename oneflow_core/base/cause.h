// Cause: where a failure began. A status carries it from the place that finds the failure, across
// processes, to whoever reports the end of a run. A status without one is a failure that began
// here.
//
//   return MarkConsequence(3, absl::AbortedError("process 3 has ended the exchange"));
//   if (FindCause(status).is_consequence) ... process 3 may say what happened ...
#pragma once

#include <string>

#include "absl/status/status.h"

namespace oneflow {

struct Cause {
  int process = -1;  // -1: not known, or none in particular
  int rank = -1;     // its first one; -1: not known
  // True if a process only noticed it: `process` may know, and report, what happened there.
  bool is_consequence = false;
  // True if process 0 has decided it: that it ends the run, which process 0 reports itself, or that
  // the run goes on without this process.
  bool is_decided = false;
  std::string host;  // of the process; not empty: the message names the process
};

// The status with this cause instead of the one that it has. An OK status stays as it is.
absl::Status WithCause(absl::Status status, const Cause& cause);
Cause FindCause(const absl::Status& status);

// What this process notices of another one's failure: an exchange that the other has ended, a link
// to it that is broken or on which nothing arrives. -1: not known of which.
absl::Status MarkConsequence(int process, absl::Status status);

}  // namespace oneflow
