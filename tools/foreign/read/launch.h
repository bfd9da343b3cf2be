// The command that starts a training, taken apart: launchers, devices, program, arguments.
// Internal to sources.cc.
#pragma once

#include "absl/status/statusor.h"
#include "tools/foreign/read/shell.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

// `sbatch`: words of #SBATCH lines, which say the devices where the launchers do not.
Launch TakeApart(const ScriptCommand& command, const std::vector<Word>& sbatch);

// How much a command looks like the start of a training: 0 for `mkdir`.
int RateCommand(const ScriptCommand& command);

}  // namespace oneflow::foreign
