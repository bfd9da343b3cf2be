// A plan's facts as JSON, for programs: what PlanSummary prints for people.
//
// {"model", "fingerprint", "version", "proof", "mesh": {axis: size}, "devices",
//  "stages": [{"stage", "devices", "arena_bytes", "persistent_bytes", "register_bytes",
//              "lower_bound_bytes"}],
//  "programs": [{"name", "micro_batches", "micro_batch_size", "address_period_steps",
//                "address_period_micro_batches",
//                "stages": [{"stage", "actors", "registers", "flops_a_step",
//                            "streams": [{"name", "host",
//                                         "order": [{"segments": [name], "repeat"}]}]}],
//                "boxing": [{"actor", "kernel", "stage", "bytes", "seconds", "why"}],
//                "actors": [{"name", "kernel", "stage", "flops"}]}],
//  "variables": [{"name", "dims", "replicas", ...}], "notes": [text]}
//
// A variable that is trained has the members of variable_json.h, too, those of its moments
// included. Bytes of a stage, and what its actors compute and move, are those of one device of it;
// "flops", "bytes" and "seconds" of one firing, "flops_a_step" of all firings of a step.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// Of a plan that is well-formed (VerifyTypes).
std::string PlanJson(const proto::Plan& plan, const std::string& proof);

}  // namespace oneflow
