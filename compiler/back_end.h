// The back end of compile: boxed graphs become actors and registers, with orders, slots and bytes.
// Part of compile.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/lower/lowered.h"
#include "compiler/lower/persistent.h"
#include "compiler/programs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// The actors and registers of a draft with so many micro-batches, without orders and slots.
absl::StatusOr<Lowered> LowerDraft(const ProgramDraft& draft, const PersistentIds& ids,
                                   const Schedule& schedule, int64_t micro_batches);

// Adds init, the drafted programs, save and load to `plan`, whose variables are there, and sets
// plan->memory. Planned with as few micro-batches as show the schedule's steady state where that
// gives the slots that all give.
absl::Status AddPrograms(const std::vector<ProgramDraft>& drafts, const PersistentIds& ids,
                         const Schedule& schedule, int stages, proto::Plan* plan);

}  // namespace oneflow
