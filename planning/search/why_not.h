// Why a part of the space is not chosen: it is searched alone, and its best plan stands beside the
// best of all.
#pragma once

#include <string>

#include "planning/search/side_by_side.h"

namespace oneflow {

// The share of a budget that is kept for the part.
inline constexpr double kWhyNotShare = 1.0 / 3;

// One line, and the part's flags. Compares within what was searched, and says so. If the part has a
// faster plan than `best`, which may be empty, then that is the best plan of `best` from here on.
std::string ExplainWhyNot(Side part, int64_t capacity, SearchResult* best);

}  // namespace oneflow
