// --emit: a plan as the configuration of another system, with what that system rounds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// The report of what --emit=SYSTEM makes of the plan. The files are written to --emit_out; without
// it they are in the report: its JSON, or `files`, which the verb prints in place of its own text.
// Empty, where --emit is not given.
//
// JSON: {"system", "step_seconds", "step_seconds_before", "bytes_a_device",
// "bytes_a_device_before",
//  "flags": those of `oneflow compile` for the rounded plan, "roundings": [{"choice", "from", "to",
//  "why"}], "differences": [sentences], "files": [{"name", "text"}]}.
struct EmitReport {
  Report report;
  std::string files;
};
// `cluster`: an error says why there is none to simulate on.
absl::StatusOr<EmitReport> EmitPlan(const Arguments& args, const proto::Plan& plan,
                                    double imbalance,
                                    const absl::StatusOr<proto::Cluster>& cluster);

// Prints the text of a verb and the report; where files are printed, both go to stderr.
absl::Status PrintBesideFiles(const std::string& text, const EmitReport& emitted);

// An input error where a flag that acts on --emit alone is given without it.
absl::Status CheckEmitFlags(const Arguments& args);

}  // namespace oneflow
