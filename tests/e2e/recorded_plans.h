// Plans that tests have compiled, kept in recorded_plans.gz: the sample under sanitizers reads them
// and links no compiler, which would take most of the time to build it (docs/build.md).
//
// They need not be what is compiled today. tests/e2e/record_plans makes them anew, after a change
// of the format, of the proof, or of what these tests compile.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// Appends the plan to the file that ONEFLOW_RECORD_PLANS names, if it does.
void RecordPlan(const std::string& key, const proto::Plan& plan);

// Throws where there is none of this key.
proto::Plan RecordedPlan(const std::string& key);

}  // namespace oneflow
