// A plan's facts as JSON, for programs: the content of PlanSummary, which is for people.
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
// A trained variable also has the members of VariableJson (variable_text.h), those of its moments
// included. Bytes, FLOPs and traffic of a stage are those of one device of it. "flops", "bytes" and
// "seconds" are those of one firing, "flops_a_step" of all firings of a step.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "proto/plan.pb.h"

namespace oneflow {

// Requires a plan that is well-formed (VerifyTypes).
nlohmann::ordered_json PlanJson(const proto::Plan& plan, const std::string& proof);

}  // namespace oneflow
