#include "compiler/back_end.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/lower/delay_receives.h"
#include "compiler/lower/host_copies.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/lower/move_to_host.h"
#include "compiler/lower/state_programs.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/bound_copies.h"
#include "compiler/schedule/choose_offload.h"
#include "compiler/schedule/delay_sums.h"
#include "compiler/schedule/hide_exchanges.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/micro_batches.h"
#include "compiler/schedule/prefetch.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "compiler/schedule/tell_receives.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/stop.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Slots and offsets are found firing by firing; a proof counts in 32 bits.
constexpr int64_t kMostPlanned = int64_t{1} << 26;

absl::Status CheckFirings(const proto::Program& program, int64_t most, std::string_view why) {
  int64_t firings = 0;
  for (const proto::Stream& stream : program.stream()) {
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) {
        firings += int64_t{run.repeat()} * program.segment(segment).actor_size();
      }
    }
  }
  if (firings <= most) return absl::OkStatus();
  return InputError(absl::StrCat("--micro_batches=", program.micro_batches()),
                    absl::StrCat("make ", firings, " firings of actors, ", ToAbsl(why)),
                    absl::StrCat("use at most ", program.micro_batches() * most / firings));
}

absl::Status FindSlots(const proto::Plan& plan, Lowered* lowered) {
  RETURN_IF_ERROR(CheckFirings(lowered->program, kMostPlanned, "too many to plan one by one"));
  return SetSlots(plan, &lowered->program);
}

absl::Status Lower(BackEndState* s) {
  ProgramSpec spec = s->draft.spec;
  spec.micro_batches = s->micro_batches;
  spec.chunks = s->schedule.chunks;
  spec.splits_backward = s->schedule.splits_backward;
  ASSIGN_OR_RETURN(s->lowered, LowerToActors(s->draft.graph, s->ids, s->plan, spec));
  return absl::OkStatus();
}

absl::Status TimeActors(BackEndState* s) {
  if (!s->seconds.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(s->seconds,
                   ActorSeconds(s->plan, s->lowered.program, s->lowered.facts, s->plan.cluster()));
  return absl::OkStatus();
}

// Uses that may wait for the link to the host, beside the present one.
int CopiesAhead(const BackEndState& s) { return std::max<int>(1, s.plan.recipe().prefetch()); }

bool HasHostCopies(const BackEndState& s) { return RestsOnHost(s.plan.recipe(), s.draft.graph); }

// Ids, rates and initial fills. Liveness and bytes are proved of all programs together
// (VerifyPlan).
absl::Status VerifyNet(const BackEndState& s) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(s.plan, s.lowered.program));
  return VerifyRates(net);
}

constexpr BackEndStep kSteps[] = {
    // Actors and registers, with the copies between devices and hosts, and the time of each firing.
    {"lower", nullptr, Lower},
    {"host_copies", [](const BackEndState& s) { return s.plan.device_kind() != proto::CPU; },
     [](BackEndState* s) {
       AddHostCopies(s->plan.persistent(), {}, &s->lowered);
       return absl::OkStatus();
     }},
    {"delay_receives", nullptr,
     [](BackEndState* s) {
       DelayUpdateReceives(&s->lowered);
       return absl::OkStatus();
     }},
    {"times", nullptr, TimeActors},
    {"choose_offload",
     [](const BackEndState& s) {
       return s.draft.train && s.plan.recipe().offload().has_activations();
     },
     [](BackEndState* s) {
       return ChooseOffload({s->plan, s->plan.cluster(), s->schedule, s->stages,
                             s->plan.recipe().offload().activations(), CopiesAhead(*s)},
                            s->seconds, &s->lowered);
     }},
    {"move_to_host", [](const BackEndState& s) { return HasHostCopies(s); },
     [](BackEndState* s) {
       MoveToHost(s->plan.persistent(), &s->lowered);
       s->seconds.clear();
       return TimeActors(s);
     },
     VerifyNet},
    // The order of actors inside segments, and the control registers that bound streams ahead of
    // it.
    {"hide_exchanges", [](const BackEndState& s) { return s.plan.recipe().overlap(); },
     [](BackEndState* s) {
       HideExchanges(s->seconds, &s->lowered);
       return absl::OkStatus();
     }},
    {"delay_sums", [](const BackEndState& s) { return s.plan.recipe().overlap(); },
     [](BackEndState* s) {
       DelaySums(&s->lowered);
       return absl::OkStatus();
     }},
    // Behind what moves kernels: credits are places in compute's order.
    {"prefetch",
     [](const BackEndState& s) {
       return s.plan.recipe().overlap() && s.plan.recipe().prefetch() > 0;
     },
     [](BackEndState* s) {
       AddPrefetch(s->plan.recipe().prefetch(), &s->lowered);
       return absl::OkStatus();
     }},
    {"bound_copies", [](const BackEndState& s) { return HasHostCopies(s); },
     [](BackEndState* s) {
       BoundCopies(CopiesAhead(*s), &s->lowered);
       // What keeps an order costs a firing.
       s->seconds.resize(s->lowered.program.actor_size(),
                         s->plan.cluster().device().firing_seconds());
       return absl::OkStatus();
     },
     VerifyNet},
    // Streams with their orders, and the slots of registers under these.
    {"schedule", nullptr,
     [](BackEndState* s) {
       AddStreams(&s->lowered, s->stages, s->schedule);
       return absl::OkStatus();
     }},
    {"slots", nullptr, [](BackEndState* s) { return FindSlots(s->plan, &s->lowered); }},
    // Tokens have their slots, and no other register needs more for them.
    {"tell_receives", nullptr,
     [](BackEndState* s) { return TellReceives(s->plan, s->seconds, &s->lowered); }, VerifyNet},
};

// In programs that only move variables the copies are all that a device does. Two variables are
// under way at a time: one at the host, one at the device.
constexpr HostCopyOptions kStateCopies = {Lane::kCompute, Lane::kCompute, /*ahead=*/2};

class BackEnd {
 public:
  BackEnd(const PersistentIds& ids, const Schedule& schedule, int stages, const proto::Plan& plan)
      : ids_(ids), schedule_(schedule), stages_(stages), plan_(plan) {}

  // All programs, with orders and slots for as few micro-batches as tell the slots of all.
  absl::StatusOr<std::vector<Lowered>> SteadyPrograms(
      const std::vector<ProgramDraft>& drafts) const {
    std::vector<Lowered> programs = {InitProgram(plan_)};
    for (const ProgramDraft& draft : drafts) {
      ASSIGN_OR_RETURN(Lowered lowered, SteadyProgram(draft));
      programs.push_back(std::move(lowered));
    }
    programs.push_back(SaveProgram(plan_));
    programs.push_back(LoadProgram(plan_));
    for (Lowered* state : {&programs.front(), &programs.end()[-2], &programs.back()}) {
      if (plan_.device_kind() != proto::CPU) {
        AddHostCopies(plan_.persistent(), kStateCopies, state);
      }
      AddStreams(state, stages_, schedule_);
      RETURN_IF_ERROR(SetSlots(plan_, &state->program));
    }
    return programs;
  }

  // Few are enough where one period more, for which the program is lowered, needs the same slots.
  absl::StatusOr<Lowered> SteadyProgram(const ProgramDraft& draft) const {
    const int64_t all = draft.spec.micro_batches, few = FewMicroBatches(schedule_, stages_, all);
    const int64_t more = std::min(all, few + Period(schedule_, stages_));
    BackEndState state{plan_, draft, ids_, schedule_, stages_, more};
    RETURN_IF_ERROR(RunBackEnd(&state));
    Lowered& lowered = state.lowered;
    if (few == all) return std::move(lowered);
    const std::vector<int> slots = ListSlots(lowered.program);
    RETURN_IF_ERROR(Change(few, &lowered));
    // A slot for each micro-batch is planned as such, and would be another's with more of them.
    const bool enough = slots.empty() || *std::max_element(slots.begin(), slots.end()) < few;
    if (!enough || ListSlots(lowered.program) != slots) RETURN_IF_ERROR(Change(all, &lowered));
    return std::move(lowered);
  }

 private:
  // The orders and slots of so many micro-batches.
  absl::Status Change(int64_t micro_batches, Lowered* lowered) const {
    SetMicroBatches(micro_batches, stages_, schedule_, lowered);
    return FindSlots(plan_, lowered);
  }

  static std::vector<int> ListSlots(const proto::Program& program) {
    std::vector<int> slots;
    for (const proto::Register& r : program.register_()) slots.push_back(r.slots());
    return slots;
  }

  const PersistentIds& ids_;
  const Schedule& schedule_;
  const int stages_;
  const proto::Plan& plan_;
};

}  // namespace

std::span<const BackEndStep> BackEndSteps() { return kSteps; }

absl::Status RunBackEnd(BackEndState* state, std::string_view last) {
  for (const BackEndStep& step : BackEndSteps()) {
    if (step.wanted == nullptr || step.wanted(*state)) RETURN_IF_ERROR(step.run(state));
    if (step.verify != nullptr) RETURN_IF_ERROR(step.verify(*state));
    if (step.name == last) break;
  }
  return absl::OkStatus();
}

namespace {

// A program whose bytes are planned, with few micro-batches, on its way to all of them.
class Completion {
 public:
  Completion(const proto::Plan& plan, const ProgramDraft& draft, const Schedule& schedule,
             int stages, Lowered lowered)
      : plan_(plan),
        draft_(draft),
        schedule_(schedule),
        stages_(stages),
        lowered_(std::move(lowered)) {}

  absl::StatusOr<proto::Program> Run() && {
    const int64_t few = lowered_.program.micro_batches(), all = draft_.spec.micro_batches;
    // Of a firing, so of any number of micro-batches.
    ASSIGN_OR_RETURN(seconds_,
                     ActorSeconds(plan_, lowered_.program, lowered_.facts, plan_.cluster()));
    ASSIGN_OR_RETURN(IssueOrders orders, Played());
    if (few < all) {
      SetMicroBatches(all, stages_, schedule_, &lowered_);
      RETURN_IF_ERROR(CheckFirings(lowered_.program, kMostFirings, "more than can be counted"));
      ASSIGN_OR_RETURN(orders, Completed(few, std::move(orders), all));
    }
    for (proto::IssueOrder& order : orders) {
      *lowered_.program.add_issue() = std::move(order);
    }
    return std::move(lowered_.program);
  }

 private:
  absl::StatusOr<IssueOrders> Played() const {
    return PlayIssueOrders(plan_, lowered_.program, seconds_);
  }

  absl::StatusOr<IssueOrders> PlayedWith(int64_t micro_batches) {
    SetMicroBatches(micro_batches, stages_, schedule_, &lowered_);
    RETURN_IF_ERROR(CheckFirings(lowered_.program, kMostPlanned, "too many to plan one by one"));
    return Played();
  }

  absl::StatusOr<bool> IsLive(const IssueOrders& orders) const {
    proto::Program program = lowered_.program;
    for (const proto::IssueOrder& order : orders) *program.add_issue() = order;
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan_, program));
    return VerifyLiveness(net).ok();
  }

  // Simulating one or two more periods shows how the orders continue, possibly only after more
  // micro-batches than the slots need. If none repeats, all micro-batches are simulated. Leaves the
  // program with all micro-batches.
  absl::StatusOr<IssueOrders> Completed(int64_t few, IssueOrders of_few, int64_t all) {
    const int64_t period = Period(schedule_, stages_);
    for (const int64_t spare : {0, 4, 16}) {
      for (const int64_t further : {period, 2 * period}) {
        const int64_t least = few + spare * period, begin = least + (all - least) % further;
        if (begin + further >= all) return PlayedWith(all);
        IssueOrders orders = of_few;
        if (begin != few) {
          ASSIGN_OR_RETURN(orders, PlayedWith(begin));
        }
        ASSIGN_OR_RETURN(const IssueOrders of_more, PlayedWith(begin + further));
        std::optional<IssueOrders> extended = Extended(orders, of_more, (all - begin) / further);
        if (!extended) continue;
        SetMicroBatches(all, stages_, schedule_, &lowered_);
        ASSIGN_OR_RETURN(const bool live, IsLive(*extended));
        if (live) return *std::move(extended);
      }
    }
    return PlayedWith(all);
  }

  const proto::Plan& plan_;
  const ProgramDraft& draft_;
  const Schedule& schedule_;
  const int stages_;
  Lowered lowered_;
  std::vector<double> seconds_;  // by actor
};

}  // namespace

absl::Status AddPrograms(const std::vector<ProgramDraft>& drafts, const PersistentIds& ids,
                         const Schedule& schedule, int stages, const std::stop_token& stop,
                         proto::Plan* plan) {
  ASSIGN_OR_RETURN(std::vector<Lowered> programs,
                   BackEnd(ids, schedule, stages, *plan).SteadyPrograms(drafts));
  for (Lowered& lowered : programs) {
    if (!lowered.note.empty()) plan->mutable_facts()->add_note(lowered.note);
    *plan->add_program() = std::move(lowered.program);
    *plan->mutable_facts()->add_program() = lowered.facts;
  }
  RETURN_IF_ERROR(PlanMemory(stages, plan, stop));
  for (size_t i = 0; i < drafts.size(); ++i) {
    RETURN_IF_ERROR(CheckStop(stop));
    proto::Program& program = *plan->mutable_program(static_cast<int>(i) + 1);  // after init
    Lowered& lowered = programs[i + 1];
    lowered.program = std::move(program);
    ASSIGN_OR_RETURN(program,
                     Completion(*plan, drafts[i], schedule, stages, std::move(lowered)).Run());
  }
  return absl::OkStatus();
}

absl::Status AddDraft(const ProgramDraft& draft, const PersistentIds& ids, const Schedule& schedule,
                      int stages, proto::Plan* plan) {
  ASSIGN_OR_RETURN(Lowered lowered, BackEnd(ids, schedule, stages, *plan).SteadyProgram(draft));
  *plan->mutable_facts()->add_program() = lowered.facts;
  *plan->add_program() = std::move(lowered.program);
  RETURN_IF_ERROR(BoundMemory(stages, plan));
  lowered.program = std::move(*plan->mutable_program(0));
  if (lowered.program.micro_batches() < draft.spec.micro_batches) {
    SetMicroBatches(draft.spec.micro_batches, stages, schedule, &lowered);
  }
  *plan->mutable_program(0) = std::move(lowered.program);
  return absl::OkStatus();
}

}  // namespace oneflow
