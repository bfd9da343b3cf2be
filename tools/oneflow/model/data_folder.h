// The folder that `oneflow data` writes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

inline constexpr std::string_view kTrainFile = "train.bin", kValidationFile = "val.bin";

// The path of a file in --out.
std::string OutputPath(std::string_view name);

// The folder --out is there, or is made; nothing in it is lost that is read.
absl::Status MakeDataFolder(const Arguments& args);

}  // namespace oneflow
