// Orders that suit the times of stages: where a cluster is known and the schedule has something to
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

// Of the first draft, boxed, whose variables `plan` holds. Nothing where there is nothing to fit:
// the schedule splits no backward, there is one stage, or the cluster does not say how fast its
// devices are. An input error where a rate makes an actor take endlessly long.
absl::StatusOr<std::optional<StageTimes>> FindStageTimes(const std::vector<ProgramDraft>& drafts,
                                                         const PersistentIds& ids,
                                                         const Schedule& schedule, int stages,
                                                         const proto::Cluster& cluster,
                                                         const proto::Plan& plan);

// `schedule` with warm-up depths for these stage times.
Schedule Fitted(const StageTimes& times, Schedule schedule);

// The extra_in_flight beyond which a fitted step gets no shorter.
int64_t MostUsefulExtra(const StageTimes& times);

// What fitting gains, for `explain`; empty where next to nothing.
std::string FitNote(const StageTimes& times, const Schedule& fitted);

}  // namespace oneflow
