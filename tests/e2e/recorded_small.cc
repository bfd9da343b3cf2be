#include "tests/e2e/recorded_plans.h"
#include "tests/e2e/small_run.h"

namespace oneflow {

proto::Plan CompileSmall(const SmallRun& run) { return RecordedPlan(KeyOf(run)); }

}  // namespace oneflow
