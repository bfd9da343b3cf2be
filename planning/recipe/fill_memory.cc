#include "planning/recipe/fill_memory.h"

#include "compiler/back_end.h"
#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/status.h"
#include "planning/recipe/stage_times.h"

namespace oneflow {
namespace {

constexpr char kWhere[] = "--fill_memory";

absl::Status CheckCanPay(const Schedule& schedule, bool fits, int stages, const proto::Plan& plan) {
  if (plan.cluster().device().memory_bytes() <= 0) {
    return InputError(kWhere, "the memory of a device is not known",
                      "give --memory, or a cluster that says it");
  }
  if (MostUsefulExtra(schedule, stages) == 0) {
    return InputError(kWhere, "schedule " + schedule.name + " is no faster for more memory",
                      "use --schedule=zero_bubble on several stages, or leave it out");
  }
  if (!fits && plan.recipe().global_norm()) {
    return InputError(kWhere, "steps that wait for the norm of all gradients do not overlap",
                      "use --global_norm=false --clip=0, or leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> FillMemory(const FrontEnd& front_end,
                                    const std::optional<StageTimes>& times) {
  const auto& [schedule, stages, boxed, plan] = front_end;
  RETURN_IF_ERROR(CheckCanPay(schedule, times.has_value(), stages, plan));
  const int64_t most = times ? MostUsefulExtra(*times) : MostUsefulExtra(schedule, stages);
  if (most == 0) {
    return InputError(kWhere, "no step of these stages is shorter for more memory",
                      "use more micro-batches, or --global_norm=false --clip=0 where updates wait "
                      "for the norm of all gradients, or leave it out");
  }
  Schedule best = schedule;
  for (int64_t too_many = most + 1; too_many - best.extra_in_flight > 1;) {
    Schedule tried = schedule;
    tried.extra_in_flight = (best.extra_in_flight + too_many) / 2;
    if (times) tried = Fitted(*times, tried);
    proto::Plan filled = plan;
    RETURN_IF_ERROR(AddPrograms(boxed->drafts, boxed->ids, tried, stages, {}, &filled));
    if (CheckCapacity(filled, plan.cluster().device()).ok()) {
      best = tried;
    } else {
      too_many = tried.extra_in_flight;
    }
  }
  return best;
}

}  // namespace oneflow
