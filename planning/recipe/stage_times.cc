#include "planning/recipe/stage_times.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/back_end.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "planning/recipe/fill_memory.h"

namespace oneflow {
namespace {

// Sums for one micro-batch the times of the compute lane of each stage, and of the copies between
// two stages in the direction that takes longer.
PipeSeconds SumStageSeconds(const Lowered& lowered, const std::vector<double>& each, int stages) {
  PipeSeconds seconds = Alike(stages, {0, 0, 0});
  std::vector<double> down(stages), up(stages);  // by the stage before
  for (const proto::Segment& segment : lowered.program.segment()) {
    const auto& [lane, task, times, partner] = lowered.segments[segment.id()];
    double taken = 0;
    for (const int actor : segment.actor()) taken += times * each[actor];
    TaskSeconds& stage = seconds.stages[segment.stage()];
    if (lane == Lane::kReceiveForward) {
      down[(segment.stage() + stages - 1) % stages] += taken;
    } else if (lane == Lane::kReceiveBackward) {
      up[segment.stage()] += taken;
    } else if (lane != Lane::kCompute) {
      continue;
    } else if (task.part == Part::kForward) {
      stage.forward += taken;
    } else if (task.part == Part::kBackward) {
      stage.backward += taken;
    } else if (task.part == Part::kWeights) {
      stage.weights += taken;
    }
  }
  for (int s = 0; s < stages; ++s) seconds.links.push_back(std::max(down[s], up[s]));
  return seconds;
}

// By stage: bytes of registers that a W reads, over those that an F writes for a B or W.
std::vector<double> KeptForWeights(const Lowered& lowered, int stages) {
  const proto::Program& program = lowered.program;
  std::vector<Part> parts(program.actor_size(), Part::kUpdate);
  for (const proto::Segment& segment : program.segment()) {
    for (const int actor : segment.actor()) parts[actor] = lowered.segments[segment.id()].task.part;
  }
  const int first = program.register__size() > 0 ? program.register_(0).id() : 0;
  std::vector<Part> written(program.register__size(), Part::kUpdate);
  std::vector<bool> for_backward(program.register__size()), for_weights(program.register__size());
  for (const proto::Actor& actor : program.actor()) {
    for (const int id : actor.output()) {
      if (id >= first) written[id - first] = parts[actor.id()];
    }
    for (const proto::Input& input : actor.input()) {
      if (input.register_() < first) continue;
      const int r = input.register_() - first;
      for_backward[r] = for_backward[r] || parts[actor.id()] == Part::kBackward;
      for_weights[r] = for_weights[r] || parts[actor.id()] == Part::kWeights;
    }
  }
  std::vector<double> saved(stages), kept(stages);
  for (int r = 0; r < program.register__size(); ++r) {
    const proto::Register& reg = program.register_(r);
    const bool forward = written[r] == Part::kForward;
    const auto bytes = static_cast<double>(reg.slot_bytes());
    if (forward && (for_backward[r] || for_weights[r])) saved[reg.stage()] += bytes;
    if ((forward || written[r] == Part::kBackward) && for_weights[r]) kept[reg.stage()] += bytes;
  }
  for (int s = 0; s < stages; ++s) {
    kept[s] = saved[s] > 0 && kept[s] > 0 ? kept[s] / saved[s] : 1;
  }
  return kept;
}

// The gain of fitting; empty if it is negligible.
std::string FitNote(const StageTimes& times, const Schedule& fitted) {
  const double equal = StepSeconds(times, EqualWarmUps(times, fitted.extra_in_flight));
  const double taken = StepSeconds(times, fitted.warm_ups);
  if (taken > .999 * equal) return "";
  return absl::StrFormat(
      "schedule %s: fitted to F, B and W of the stages on this cluster; these alone take %.4g s a "
      "step, in the order for equal times %.4g s",
      fitted.name, taken, equal);
}

}  // namespace

absl::StatusOr<std::optional<StageTimes>> FindStageTimes(const FrontEnd& front_end) {
  const ProgramDraft& draft = front_end.boxed->drafts.front();
  const proto::Plan& plan = front_end.plan;
  const int stages = front_end.stages;
  const bool fits = front_end.schedule.order == ZeroBubbleOrder && stages > 1 && draft.train &&
                    plan.cluster().device().peak_flops() > 0;
  if (!fits) return std::nullopt;
  StageTimes times{.micro_batches = draft.spec.micro_batches,
                   .overlap = !plan.recipe().global_norm()};
  const int64_t few = std::min<int64_t>(2, times.micro_batches);
  BackEndState state{plan, draft, front_end.boxed->ids, front_end.schedule, stages, few};
  RETURN_IF_ERROR(RunBackEnd(&state, "times"));
  const std::vector<double>& each = state.seconds;
  for (const proto::Actor& actor : state.lowered.program.actor()) {
    if (std::isfinite(each[actor.id()])) continue;
    return InputError(actor.name(), absl::StrCat("takes ", each[actor.id()], " seconds"),
                      "check the rates in the cluster file");
  }
  times.seconds = SumStageSeconds(state.lowered, each, stages);
  times.kept_for_weights = KeptForWeights(state.lowered, stages);
  return times;
}

Schedule Fitted(const StageTimes& times, Schedule schedule) {
  schedule.warm_ups = FitWarmUps(times, schedule.extra_in_flight);
  return schedule;
}

int64_t MostUsefulExtra(const StageTimes& times) {
  const auto stages = static_cast<int64_t>(times.seconds.stages.size());
  const std::vector<WarmUpDepth> warm_ups = FitWarmUps(times, 3 * stages);
  double held = 0;
  for (size_t s = 0; s < warm_ups.size(); ++s) {
    held =
        std::max(held, static_cast<double>(warm_ups[s].forwards) +
                           times.kept_for_weights[s] * static_cast<double>(warm_ups[s].backwards));
  }
  return std::max<int64_t>(0, static_cast<int64_t>(std::ceil(held - 1e-9)) - stages);
}

absl::Status FitToStages(const GraphSource& source, CompileCache* cache, PlanRequest* request,
                         std::vector<std::string>* notes, std::string_view program) {
  proto::Recipe& recipe = request->recipe;
  const bool fills = recipe.fill_memory();
  if (!fills && (recipe.has_warm_ups() || recipe.schedule() != "zero_bubble")) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const FrontEnd front_end,
                   RunFrontEnds(source, *request, {.program = program}, cache));
  ASSIGN_OR_RETURN(const std::optional<StageTimes> times, FindStageTimes(front_end));
  Schedule schedule = times ? Fitted(*times, front_end.schedule) : front_end.schedule;
  if (fills) {
    ASSIGN_OR_RETURN(schedule, FillMemory(front_end, times));
    recipe.set_extra_in_flight(schedule.extra_in_flight);
    recipe.clear_fill_memory();
  }
  if (!times) return absl::OkStatus();
  recipe.clear_warm_ups();
  for (const WarmUpDepth& depth : schedule.warm_ups) {
    proto::WarmUps::Depth* stage = recipe.mutable_warm_ups()->add_stage();
    stage->set_forwards(depth.forwards);
    stage->set_backwards(depth.backwards);
  }
  const std::string note = FitNote(*times, schedule);
  if (!note.empty()) notes->push_back(note);
  return absl::OkStatus();
}

}  // namespace oneflow
