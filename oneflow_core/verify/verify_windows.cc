#include "oneflow_core/verify/checks.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/exchange_window.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {

absl::Status VerifyWindow(const PlanNet& net, const Mesh& mesh, const proto::Actor& actor,
                          const std::string& where) {
  const proto::Plan& plan = *net.plan;
  const std::vector<int> out = DataOutputs(plan, *net.program, actor);
  const bool transfer = actor.exchange().has_partner();
  const std::vector<int> in =
      DataInputs(plan, *net.program, transfer ? net.actor(actor.exchange().partner()) : actor);
  int64_t needed = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSIGN_OR_RETURN(
        const int64_t window,
        WindowBytes(plan.device_kind(), plan.group(actor.exchange().group()), actor.boxing(),
                    *net.registers[in[i]].proto, *net.registers[out[i]].proto, mesh));
    needed = JoinWindows(plan.device_kind(), needed, window);
  }
  const int64_t has =
      actor.has_workspace() ? net.registers[actor.workspace()].proto->slot_bytes() : 0;
  if (has >= needed) return absl::OkStatus();
  return InputError(where,
                    absl::StrCat("has ", has, " bytes of workspace, its window needs ", needed),
                    "the plan was edited or damaged; compile it again");
}

}  // namespace oneflow
