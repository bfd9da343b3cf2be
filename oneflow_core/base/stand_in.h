// Files that stand for others: links that lead nowhere, as a cache leaves them whose files were
// removed, and pointers of Git LFS, which a clone without Git LFS has in place of large files.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace oneflow {

// An input error if `path` is a link and what it leads to is missing.
absl::Status CheckLink(const std::string& path);

// An input error if `bytes`, with which the file at `path` begins, are those of a pointer: 64 tell.
absl::Status CheckNoPointer(const std::string& path, std::string_view bytes);

}  // namespace oneflow
