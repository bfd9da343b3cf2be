// Fits the warm-ups of a schedule to the times of its stages, if the cluster is known and the
// schedule has something to fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/boxed_programs.h"
#include "planning/recipe/fit_warm_ups.h"

namespace oneflow {

// Finds the stage times of the first program. Returns nullopt if there is nothing to fit: the
// schedule splits no backward, there is one stage, or the cluster does not state its devices'
// rates. An input error if a rate gives an actor an infinite time.
absl::StatusOr<std::optional<StageTimes>> FindStageTimes(const FrontEnd& front_end);

// Returns `schedule` with warm-up depths for these stage times.
Schedule Fitted(const StageTimes& times, Schedule schedule);

// The extra_in_flight beyond which a fitted step gets no shorter.
int64_t MostUsefulExtra(const StageTimes& times);

// Sets the recipe's warm_ups, unless it has some; with fill_memory also extra_in_flight
// (fill_memory.h), and then fill_memory is not said any more. Adds a note where fitting gains.
// `program`: the last one of the front end that `cache` gets; empty: all.
absl::Status FitToStages(const GraphSource& source, CompileCache* cache, PlanRequest* request,
                         std::vector<std::string>* notes, std::string_view program = "");

}  // namespace oneflow
