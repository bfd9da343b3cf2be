// What this processor makes of a plan's precision: told, and never a reason to refuse the plan.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// A line for people; "" for a plan in f32.
std::string PrecisionText(const proto::Plan& plan);

}  // namespace oneflow
