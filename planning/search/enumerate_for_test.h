// The space of a search compiled and simulated one plan after the other: what a search is compared
// with in tests.
#pragma once

#include <string>
#include <vector>

#include "planning/search/result.h"
#include "planning/search/space.h"

namespace oneflow {

// All plans of the spec's groups with each of `choices` of recompute, as "full:1", that can be
// compiled and fit a device, the fastest first, on two threads. No plans where the space is an
// error.
std::vector<FoundPlan> EnumerateForTest(const SearchSpec& spec,
                                        const std::vector<std::string>& choices);

}  // namespace oneflow
