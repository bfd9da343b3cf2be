// The plan of a user's own configuration: does it fit, how long is a step, where the time goes.
#pragma once

#include <cstdint>
#include <string>

#include "oneflow_core/print/report.h"
#include "planning/fit/fit.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct OwnFrame {
  std::string model, cluster;  // names
  int64_t capacity = 0;        // bytes of a device for a plan; 0: no limit
};

// Up to four lines: whether it fits, its step and figures, where the time of a step goes, which
// tensors take the memory (left out where the split of it is not known).
//
// {"fits", "bytes_a_device", "device_capacity_bytes", "step_seconds", "band", "tokens_a_second",
// "tokens_per_second_per_device", "mfu", "bubble", "exposed_exchange_seconds", "time": [{"kernel",
// "share"}], "memory": [{"what", "bytes"}]}.
Report DescribeOwn(const OwnFrame& frame, const OwnPlan& own, const proto::Cluster& cluster);

}  // namespace oneflow
