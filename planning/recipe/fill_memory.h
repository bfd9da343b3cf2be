// Fills a device's memory with micro-batches in flight, as many as fit and shorten the bubble.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "compiler/boxed_programs.h"
#include "planning/recipe/fit_warm_ups.h"

namespace oneflow {

// Returns the schedule with the largest extra_in_flight whose programs fit a device of the plan's
// cluster: at least the given one, at most the largest that shortens a step. An input error if none
// can: the capacity is not known, or steps do not overlap. Takes a back end for each of about
// log2(P) tries; if `times` are known, each try fits the orders to them.
absl::StatusOr<Schedule> FillMemory(const FrontEnd& front_end,
                                    const std::optional<StageTimes>& times);

}  // namespace oneflow
