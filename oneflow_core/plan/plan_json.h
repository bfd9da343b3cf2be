// A plan's facts as JSON, for programs: what PlanSummary prints for people.
//
// {"model", "fingerprint", "version", "mesh": {axis: size}, "stages": [{"stage", "devices",
// bytes...}],
//  "programs": [{"name", "micro_batches", "stages": [{"actors", "registers", "segments",
//  "orders"}],
//                "boxing": [{"actor", "kernel", "stage", "bytes", "why"}]}],
//  "variables": [...], "notes": [...], "proof"}
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

std::string PlanJson(const proto::Plan& plan, const std::string& proof);

}  // namespace oneflow
