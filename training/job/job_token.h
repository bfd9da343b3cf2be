// The token of a run whose launcher gives none: a file of the user's, which the first process of a
// host to look for it makes, and all others read. A process that cannot read the file cannot join.
//
//   ASSIGN_OR_RETURN(std::string token, TokenOfRun(TokenFolder(), "127.0.0.1:29501"));
//
// It serves processes of one host; beyond loopback a job has keys (job_keys.h), and their token.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// A secret of 64 hexadecimal digits, from the system's generator.
absl::StatusOr<std::string> DrawToken();

// ~/.oneflow; oneflow-UID in /tmp for a user without a home folder that can be written to.
std::string TokenFolder();

// The token in the folder's file for `run`, the same in all processes that ask. The folder (mode
// 0700) and the file (0600) are made if they are missing; the file appears with its token in it.
// Refuses a folder that is another user's or that others may write to, and a file that others may
// read. A later run of the same name has the same token. When a file is made, those of other runs
// that nobody has used for kTokenDays are removed.
absl::StatusOr<std::string> TokenOfRun(const std::string& folder, const std::string& run);
inline constexpr int kTokenDays = 30;

// Removes that file, of a run whose name does not come again, once all have read it.
void ForgetToken(const std::string& folder, const std::string& run);

}  // namespace oneflow
