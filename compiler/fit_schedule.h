// Fits orders to the times of stages, if the cluster is known and the schedule has something to
// fit. Part of compile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/persistent.h"
#include "compiler/programs.h"
#include "compiler/schedule/fit_warm_ups.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Finds the stage times of the first draft, which is boxed; `plan` holds its variables. Returns
// nullopt if there is nothing to fit: the schedule splits no backward, there is one stage, or the
// cluster does not state its devices' rates. An input error if a rate gives an actor an infinite
// time.
absl::StatusOr<std::optional<StageTimes>> FindStageTimes(const std::vector<ProgramDraft>& drafts,
                                                         const PersistentIds& ids,
                                                         const Schedule& schedule, int stages,
                                                         const proto::Cluster& cluster,
                                                         const proto::Plan& plan);

// Returns `schedule` with warm-up depths for these stage times.
Schedule Fitted(const StageTimes& times, Schedule schedule);

// The extra_in_flight beyond which a fitted step gets no shorter.
int64_t MostUsefulExtra(const StageTimes& times);

// The gain of fitting, for `explain`; empty if it is negligible.
std::string FitNote(const StageTimes& times, const Schedule& fitted);

}  // namespace oneflow
