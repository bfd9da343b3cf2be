#include "compiler/fill_memory.h"

#include "compiler/back_end.h"
#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status CheckPays(const Schedule& schedule, const proto::Plan& plan, int64_t most,
                       int64_t capacity) {
  const char* where = "fill_memory";
  if (capacity <= 0) {
    return InputError(where, "the memory of a device is not known",
                      "give --memory, or a cluster that says it");
  }
  if (most == 0) {
    return InputError(where, "schedule " + schedule.name + " is no faster for more memory",
                      "use --schedule=zero_bubble on several stages, or leave it out");
  }
  if (plan.train().no_global_norm()) return absl::OkStatus();
  return InputError(where, "steps that wait for the norm of all gradients do not overlap",
                    "use --global_norm=false --clip=0, or leave it out");
}

}  // namespace

absl::StatusOr<Schedule> FillMemory(const std::vector<ProgramDraft>& drafts,
                                    const PersistentIds& ids, const Schedule& schedule, int stages,
                                    const std::optional<Pipe>& pipe, const proto::Plan& plan,
                                    int64_t capacity) {
  const int64_t most = pipe ? MostUsefulExtra(*pipe) : MostUsefulExtra(schedule, stages);
  RETURN_IF_ERROR(CheckPays(schedule, plan, most, capacity));
  Schedule best = schedule;
  for (int64_t too_many = most + 1; too_many - best.extra_in_flight > 1;) {
    Schedule tried = schedule;
    tried.extra_in_flight = (best.extra_in_flight + too_many) / 2;
    if (pipe) tried = Fitted(*pipe, tried);
    proto::Plan whole = plan;
    RETURN_IF_ERROR(AddPrograms(drafts, ids, tried, stages, &whole));
    if (CheckCapacity(whole, capacity).ok()) {
      best = tried;
    } else {
      too_many = tried.extra_in_flight;
    }
  }
  return best;
}

}  // namespace oneflow
