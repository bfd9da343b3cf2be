// `oneflow search --pareto`: plans that are best by two measures.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planning/search/result_text.h"
#include "planning/search/search.h"

namespace oneflow {

// Searches, and prints the front as --format says: text, json, or html, a folder of pages at --out
// with the plans. `frame`: its flags are without --memory.
absl::Status SearchFront(const SearchSpec& spec, const std::vector<int64_t>& devices,
                         const SearchOptions& options, const ResultFrame& frame);

}  // namespace oneflow
