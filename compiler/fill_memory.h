// Fills a device's memory with micro-batches in flight, as many as fit and shorten the bubble. Part
// of compile.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fit_schedule.h"
#include "compiler/lower/persistent.h"
#include "compiler/programs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Returns `schedule` with the largest extra_in_flight whose programs fit `capacity` bytes a device:
// at least the given one, at most the largest that shortens a step. `plan` holds the variables. An
// input error if none can: the capacity is not known, or steps do not overlap. Takes a back end for
// each of about log2(P) tries; if `times` are known, each try fits the orders to them.
absl::StatusOr<Schedule> FillMemory(const std::vector<ProgramDraft>& drafts,
                                    const PersistentIds& ids, const Schedule& schedule, int stages,
                                    const std::optional<StageTimes>& times, const proto::Plan& plan,
                                    int64_t capacity);

}  // namespace oneflow
