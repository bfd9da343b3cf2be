#include "oneflow_core/verify/read_plan.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {

absl::StatusOr<proto::Plan> ReadPlan(const std::string& path) {
  ASSIGN_OR_RETURN(proto::Plan plan, ReadPlanUnchecked(path));
  RETURN_IF_ERROR(Annotate(VerifyTypes(plan), path));
  return plan;
}

absl::StatusOr<proto::Plan> ReceivePlan(std::string_view bytes, const std::string& where) {
  ASSIGN_OR_RETURN(proto::Plan plan, ParsePlan(bytes, where));
  RETURN_IF_ERROR(Annotate(VerifyTypes(plan), where));
  if (plan.fingerprint() != Fingerprint(plan)) {
    return InputError(where, "does not say what its fingerprint stands for", "compile it again");
  }
  return plan;
}

}  // namespace oneflow
