#include "compiler/back_end.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/lower/hold_back.h"
#include "compiler/lower/keep_in_step.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/lower/state_programs.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/micro_batches.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

class BackEnd {
 public:
  BackEnd(const std::vector<ProgramDraft>& drafts, const PersistentIds& ids,
          const Schedule& schedule, int stages, const proto::Plan& plan)
      : drafts_(drafts), ids_(ids), schedule_(schedule), stages_(stages), plan_(plan) {}

  // All programs, with orders and slots for at most `most` micro-batches.
  absl::StatusOr<std::vector<Lowered>> Programs(int64_t most) const {
    std::vector<Lowered> programs = {InitProgram(plan_)};
    for (const ProgramDraft& draft : drafts_) {
      LowerOptions options = draft.lower;
      options.micro_batches = std::min(options.micro_batches, most);
      options.chunks = schedule_.chunks;
      options.splits_backward = schedule_.splits_backward;
      ASSIGN_OR_RETURN(Lowered lowered, LowerToActors(draft.graph, ids_, options));
      HoldBackUpdateCopies(&lowered);
      KeepUpdateInStep(&lowered);
      programs.push_back(std::move(lowered));
    }
    programs.push_back(SaveProgram(plan_));
    programs.push_back(LoadProgram(plan_));
    for (Lowered& lowered : programs) {
      AddStreams(&lowered, stages_, schedule_);
      RETURN_IF_ERROR(SetSlots(plan_, &lowered.program));
    }
    return programs;
  }

  // With as few micro-batches as tell the slots of all.
  absl::StatusOr<std::vector<Lowered>> SteadyPrograms() const {
    const int64_t most = MostMicroBatches(), few = FewMicroBatches(schedule_, stages_, most);
    if (few == most) return Programs(kAll);
    ASSIGN_OR_RETURN(std::vector<Lowered> programs, Programs(few));
    ASSIGN_OR_RETURN(const std::vector<Lowered> more, Programs(few + Period(schedule_, stages_)));
    for (size_t i = 0; i < programs.size(); ++i) {
      if (!SameSlots(programs[i].program, more[i].program)) return Programs(kAll);
    }
    return programs;
  }

 private:
  int64_t MostMicroBatches() const {
    int64_t most = 1;
    for (const ProgramDraft& draft : drafts_) most = std::max(most, draft.lower.micro_batches);
    return most;
  }

  static bool SameSlots(const proto::Program& a, const proto::Program& b) {
    return std::equal(
        a.register_().begin(), a.register_().end(), b.register_().begin(),
        [](const proto::Register& x, const proto::Register& y) { return x.slots() == y.slots(); });
  }

  const std::vector<ProgramDraft>& drafts_;
  const PersistentIds& ids_;
  const Schedule& schedule_;
  const int stages_;
  const proto::Plan& plan_;
};

}  // namespace

absl::Status AddPrograms(const std::vector<ProgramDraft>& drafts, const PersistentIds& ids,
                         const Schedule& schedule, int stages, proto::Plan* plan) {
  ASSIGN_OR_RETURN(std::vector<Lowered> programs,
                   BackEnd(drafts, ids, schedule, stages, *plan).SteadyPrograms());
  for (Lowered& lowered : programs) *plan->add_program() = std::move(lowered.program);
  RETURN_IF_ERROR(PlanMemory(stages, plan));
  for (size_t i = 0; i < drafts.size(); ++i) {
    proto::Program& program = *plan->mutable_program(static_cast<int>(i) + 1);  // after init
    const int64_t all = drafts[i].lower.micro_batches;
    if (program.micro_batches() == all) continue;
    Lowered& lowered = programs[i + 1];
    lowered.program = std::move(program);
    SetMicroBatches(all, stages, schedule, &lowered);
    program = std::move(lowered.program);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
