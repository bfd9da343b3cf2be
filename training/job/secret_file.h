// Files that only their owner may read.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// Makes the file, with mode 0600. An existing one is an error, and stays.
absl::Status WriteSecret(const std::string& path, const std::string& text);

// Refuses a file that others than its owner may read, and one of more than 64 KiB. `hint` ends the
// error message.
absl::StatusOr<std::string> ReadSecret(const std::string& path, const std::string& hint);

}  // namespace oneflow
