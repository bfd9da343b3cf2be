#include "oneflow_core/plan/verify_plan.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_net.h"
#include "oneflow_core/plan/verify_liveness.h"
#include "oneflow_core/plan/verify_memory.h"
#include "oneflow_core/plan/verify_types.h"

namespace oneflow {

absl::Status VerifyPlan(const proto::Plan& plan) {
  RETURN_IF_ERROR(VerifyPlanTypes(plan));
  for (const proto::Program& program : plan.program()) {
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
    RETURN_IF_ERROR(VerifyProgramTypes(net));
    RETURN_IF_ERROR(VerifyLiveness(net));
    RETURN_IF_ERROR(VerifyMemory(net));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
