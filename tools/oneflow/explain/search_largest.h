// oneflow search --largest: the largest model, batch and sequence of which a plan fits.
#pragma once

#include "absl/status/status.h"
#include "planning/search/result_text.h"
#include "planning/search/search.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// frame.given_flags are without --graph and --batch.
absl::Status SearchLargest(const Arguments& args, const SearchSpec& spec,
                           const SearchOptions& options, const ResultFrame& frame);

}  // namespace oneflow
