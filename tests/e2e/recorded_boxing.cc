#include "tests/e2e/boxing_case.h"
#include "tests/e2e/recorded_plans.h"

namespace oneflow {

proto::Plan MakeBoxingPlan(const BoxingCase& c) { return RecordedPlan(RecordKey(c)); }

}  // namespace oneflow
