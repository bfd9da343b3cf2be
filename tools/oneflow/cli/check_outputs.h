// Checks that no verb overwrites a file that it reads.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// An input error where a file to write (--out, --metrics, --trace, --fetch, --layouts_out, ...) is
// one to read (--graph, --plan, --data, --cluster, ...) or another to write, by whatever path.
// Nothing has been opened yet. A file that is not regular, such as /dev/null, may be anything.
absl::Status CheckOutputs(const Arguments& args);

// The same of `file`, which the verb writes beside those, as `where` asks it to: a file in the
// folder --out, a rank's shard.
absl::Status CheckNotRead(const Arguments& args, std::string_view where, const std::string& file);

}  // namespace oneflow
