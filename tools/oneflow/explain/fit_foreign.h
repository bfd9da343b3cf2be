// oneflow fit FILE... and oneflow fit -- COMMAND: a training as another system's user starts it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// True of files of settings and of scripts, false of what names a model.
bool NamesForeignFiles(const std::vector<std::string>& words);

// Prints what the configuration says and what became of each setting, the plan that it is here,
// the bytes as its own system counts them, and up to three better plans as changes of its settings.
// Errors, behind all that could be read: a rule that the configuration breaks, what it does not
// say, a model that cannot be built (unless --approximate).
absl::Status FitForeign(const Arguments& args);

}  // namespace oneflow
