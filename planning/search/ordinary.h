// The plans that practitioners write, as data: where a search begins.
#pragma once

#include <vector>

#include "planning/search/space.h"

namespace oneflow {

// Of the plan groups of the space (ListGroups) those of common forms: data alone, its states split
// (ZeRO-1) or all of it (FSDP); tensor of at most 8, experts, or parts of long sequences within a
// node, each with data; and each with stages, under 1F1B or interleaved in equal chunks; of few
// sequences in a micro-batch, or of all (what `compile` makes without advice).
std::vector<proto::Recipe> FindOrdinary(const SearchSpec& spec,
                                        const std::vector<proto::Recipe>& groups);

}  // namespace oneflow
