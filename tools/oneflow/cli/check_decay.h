// Numbers of a decay that does not happen.
#pragma once

#include "absl/status/status.h"
#include "proto/train.pb.h"

namespace oneflow {

// An input error where `given` says how a learning rate decays that is constant in `optimizer`,
// which is what it and the plan come to.
absl::Status CheckDecay(const proto::Optimizer& given, const proto::Optimizer& optimizer);

}  // namespace oneflow
