// What one process does alone, however many a launcher has started.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// Whether this process is to do the work of `verb`: process 0 is. Where there are, or were asked
// for, several processes (flags, torchrun, srun, ...), a line on stderr says so.
absl::StatusOr<bool> WorksAlone(const std::string& verb);

}  // namespace oneflow
