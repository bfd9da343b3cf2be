// No verb may write over what it reads.
#pragma once

#include "absl/status/status.h"
#include "tools/oneflow/verb.h"

namespace oneflow {

// An input error where a file to write (--out, --metrics, --trace) is one to read (--graph, --plan,
// --data, --cluster, ...) or another to write, by whatever path. Nothing has been opened yet. What
// is no regular file, such as /dev/null, may be anything.
absl::Status CheckOutputs(const Arguments& args);

}  // namespace oneflow
