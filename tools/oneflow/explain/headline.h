// The first lines of `compile` and `explain`: the summary of a plan.
//
// The time of a step is that of `oneflow simulate` on the same cluster. It is omitted, with the
// reason, if a plan has no program train, is refused, or has more firings without a period than
// are simulated in about a second; then `oneflow simulate` computes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/plan_flags.h"

namespace oneflow {

// Four lines: model, memory, prediction and proof; one more on the host's memory where something
// rests there, one of what each axis splits (axis_splits.h), and one on bits where something rests
// there or data axes split something.
//
// {"parameters", "devices", "bytes_a_device", "device_capacity_bytes": 0 where it is not known,
//  "device_kept_bytes", "cluster", "host_bytes_a_device", "host_bytes_a_node", "assumed_of_host",
//  "step_seconds", "compared", "tokens_a_second" and "tokens_per_second_per_device": 0
//  where the graph reads no tokens, "mfu", "mfu_counts" (WhatCounts), "why_above_all", "bubble",
//  "axes", "bits"}; without a time of a step "no_prediction", why, in its place.
//
// Where a mixture has a price, the time is that of the price, and the memory is said of both. JSON
// has {"price": {"imbalance", "bytes_a_device", "fits_up_to": where not any routing fits}};
// its other bytes are those of a plan with room for any routing, or where there is "fits_up_to", of
// the price.
//
// `cluster`: an error says why there is none to simulate on. `proof`: the verdict in words,
// DescribeProof's of this plan; where it is kProved, the plan is not proved once more.
Report MakeHeadline(const PricedPlan& priced, const absl::StatusOr<proto::Cluster>& cluster,
                    const std::string& proof);

// "at an imbalance of experts of 1.25, 52.70 GiB at the worst". Requires a price.
std::string PriceText(const PricedPlan& priced);

}  // namespace oneflow
