#include "oneflow_core/verify/read_plan.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/verify/verify_types.h"

namespace oneflow {

absl::StatusOr<proto::Plan> ReadPlan(const std::string& path) {
  ASSIGN_OR_RETURN(proto::Plan plan, ReadPlanUnchecked(path));
  RETURN_IF_ERROR(Annotate(VerifyTypes(plan), path));
  return plan;
}

}  // namespace oneflow
