// The cause of a failure: the process where it began. A status carries it from the place that finds
// the failure, across processes, to the one that reports the end of a run. A status without a cause
// is a failure that began here.
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
  // True if this process only noticed the failure: `process` may know, and report, its reason.
  bool is_consequence = false;
  // True if process 0 has decided it: it ends the run, and reports so itself, or the run goes on
  // without this process.
  bool is_decided = false;
  std::string host;  // of the process; not empty: the message names the process
};

// Returns the status with this cause in place of its own. An OK status stays as it is.
absl::Status WithCause(absl::Status status, const Cause& cause);
Cause FindCause(const absl::Status& status);

// Marks a status as the consequence of another process's failure: an exchange that the other has
// ended, or a link to it that is broken or silent. `process` -1: not known.
absl::Status MarkConsequence(int process, absl::Status status);

}  // namespace oneflow
