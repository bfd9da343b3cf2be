// Flags of a decay that does not happen.
#pragma once

#include "absl/status/status.h"
#include "proto/train.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// An input error where a flag says how a learning rate decays that is constant in `optimizer`,
// which is what the flags and the plan come to.
absl::Status CheckDecay(const Arguments& args, const proto::Optimizer& optimizer);

}  // namespace oneflow
