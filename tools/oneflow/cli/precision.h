// Describes how this processor executes a plan's precision; the plan is never refused for it.
#pragma once

#include <string>

#include "actor_runtime/kernel/simd/isa.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A line for people, of kernels that compute with `isa`; "" for a plan in f32 or of GPUs.
std::string PrecisionText(const proto::Plan& plan, Isa isa = BestIsa());

}  // namespace oneflow
