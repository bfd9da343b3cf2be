// Reads and writes entire files, with errors that name the path and the reason.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// `hint` ends the error message: the input to give instead. A directory is an error, not an empty
// file; so is a file of more than 2 GiB, or without an end (/dev/zero).
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     std::string_view hint = "check the path");

// The error of a file that could not be made, written or removed; `error` is the errno with the
// reason. A path that leads nowhere, or to where the user may not write, is the user's mistake
// (InputError). A full disk, or one that has become read-only or is broken, is a failure at run
// time: UNAVAILABLE. The message is that of an InputError.
absl::Status WriteError(std::string_view path, std::string_view what, int error,
                        std::string_view hint = "check the folder and the disk");

// Creates or replaces a file atomically: a reader sees the old bytes or the new ones. A path that
// is no regular file (a pipe, /dev/stdout, a link) is written to and stays as it is. It does not
// sync: see training/files/durable.h for files that survive a crash.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// Checks now that WriteFile can write there later. Removes a regular file that was there.
absl::Status MakeWayForFile(const std::string& path);

}  // namespace oneflow
