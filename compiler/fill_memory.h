// How much of a device's memory a schedule puts to use: micro-batches in flight that shorten the
// bubble, as many as fit. Part of compile.
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

// `schedule` with the largest extra_in_flight, from what it has up to where more does not pay,
// whose programs fit `capacity` bytes a device; `plan` holds the variables. An input error where
// nothing pays: the capacity is not known, or steps do not overlap. Costs a back end for each of
// about log2(P) tries; where `times` are known, orders are fitted to it, once a try.
absl::StatusOr<Schedule> FillMemory(const std::vector<ProgramDraft>& drafts,
                                    const PersistentIds& ids, const Schedule& schedule, int stages,
                                    const std::optional<StageTimes>& times, const proto::Plan& plan,
                                    int64_t capacity);

}  // namespace oneflow
