// Verbs that one process runs alone, for any number of processes that a launcher has started.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// True if this process is to do the work of `verb`: process 0 is. If there are several processes,
// or were asked for (flags, torchrun, srun, ...), a line on stderr says so.
absl::StatusOr<bool> WorksAlone(const std::string& verb);

}  // namespace oneflow
