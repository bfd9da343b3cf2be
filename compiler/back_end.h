// The back end of compile: turns boxed graphs into actors and registers, with orders, slots and
// bytes. The state of one program between its steps is a value, as in front_end.h. Part of compile.
#pragma once

#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/lower/lowered.h"
#include "compiler/lower/persistent.h"
#include "compiler/programs.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// A program between two steps.
struct BackEndState {
  const proto::Plan& plan;  // mesh, groups and variables
  const ProgramDraft& draft;
  const PersistentIds& ids;
  const Schedule& schedule;
  int stages = 1;
  int64_t micro_batches = 1;         // as many as show the steady state; perhaps not all
  std::vector<double> seconds = {};  // of a firing, by actor; of step "times", unless given
  Lowered lowered = {};
};

struct BackEndStep {
  std::string_view name;
  bool (*wanted)(const BackEndState& state);  // null: for each program
  absl::Status (*run)(BackEndState* state);
  // Checks the program at the end of a phase, as in front_end.h.
  absl::Status (*verify)(const BackEndState& state) = nullptr;
};

// The steps that turn a boxed graph into actors with orders and slots, in the order in which
// compile runs them. Bytes and the orders of issue follow, for all programs together.
std::span<const BackEndStep> BackEndSteps();

// Runs the steps up to `last`; all, if that is empty.
absl::Status RunBackEnd(BackEndState* state, std::string_view last = "");

// Adds init, the drafted programs, save and load to `plan`, which holds the variables, and sets
// plan->memory. Planning takes as few micro-batches as show the schedule's steady state, if they
// give the slots that all micro-batches give. CANCELLED if it is stopped.
absl::Status AddPrograms(const std::vector<ProgramDraft>& drafts, const PersistentIds& ids,
                         const Schedule& schedule, int stages, const std::stop_token& stop,
                         proto::Plan* plan);

// Adds one program alone, without addresses and orders of issue. plan->memory gets the bytes of
// variables, and the plan's facts get the lower bound.
absl::Status AddDraft(const ProgramDraft& draft, const PersistentIds& ids, const Schedule& schedule,
                      int stages, proto::Plan* plan);

}  // namespace oneflow
