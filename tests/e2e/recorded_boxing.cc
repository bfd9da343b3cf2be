#include "tests/e2e/boxing_case.h"
#include "tests/e2e/recorded_plans.h"

namespace oneflow {

proto::Plan PlanOf(const BoxingCase& c) { return RecordedPlan(KeyOf(c)); }

}  // namespace oneflow
