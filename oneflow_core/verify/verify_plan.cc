#include "oneflow_core/verify/verify_plan.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

absl::Status VerifyPlan(const proto::Plan& plan, const VerifyOptions& options) {
  RETURN_IF_ERROR(VerifyPlanTypes(plan));
  if (options.kernels) RETURN_IF_ERROR(VerifyStatePrograms(plan));
  for (const proto::Program& program : plan.program()) {
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
    RETURN_IF_ERROR(VerifyProgramTypes(net));
    if (options.kernels) {
      RETURN_IF_ERROR(VerifyKernels(net, options.work));
      RETURN_IF_ERROR(VerifyFeeds(net));
      RETURN_IF_ERROR(VerifyStates(net));
    }
    RETURN_IF_ERROR(VerifyLiveness(net));
    RETURN_IF_ERROR(VerifyMemory(net));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
