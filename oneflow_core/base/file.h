// Whole files, read and written, with errors that name the path and the reason.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// `hint` ends the error message: what to give instead. A directory is an error, not an empty file;
// so is what has more than 2 GiB, or no end (/dev/zero).
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     std::string_view hint = "check the path");

// The error of a file that could not be made, written or removed; `error` is the errno that says
// why. A path that leads nowhere, or to where the user may not write, is the user's mistake
// (InputError); a full disk, a disk that has become read-only or is broken is a failure at run
// time: UNAVAILABLE. The message is that of an InputError.
absl::Status WriteError(std::string_view path, std::string_view what, int error,
                        std::string_view hint = "check the folder and the disk");

// Creates or replaces a file atomically: a reader sees the old bytes or the new ones. A path that
// is no regular file (a pipe, /dev/stdout, a link) is written to and stays what it is. It does not
// sync: see actor_runtime/checkpoint/durable.h for files that survive a crash.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// OK if WriteFile can write there, tried now rather than when there is something to write. A
// regular file that was there is removed.
absl::Status MakeWayForFile(const std::string& path);

}  // namespace oneflow
