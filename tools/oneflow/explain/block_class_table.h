// Describes the classes of blocks of a plan whose model has several (block_classes.h).
#pragma once

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The pattern, and a row for each class; "" and null where the blocks are of one class, or the plan
// has no program "train". Numbers are of a block, and mean ones where blocks of a class are
// recomputed differently: bytes kept from the forward of a micro-batch to its backward, FLOPs and
// time of all of its micro-batches in a step, each on one device. Exchanges count as time, whether
// they are hidden or not.
//
//   blocks: 10*(5*a b) 2*a
//          blocks   parameters  kept a micro-batch  TFLOP a step  time a step
//       a      52  402,665,728           123.4 MiB         1.234     12.34 ms
//
// Requires a plan that is proved.
//
// {"pattern", "classes": [{"name", "blocks", "parameters", "kept_bytes", "flops", "seconds": 0
// where `cluster` is an error}]}
Report BlockClassTable(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster);

}  // namespace oneflow
