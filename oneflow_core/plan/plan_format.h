// Plan files. A header of 40 bytes (magic, format version, length, checksum) and a binary Plan
// message; a path that ends in ".textproto" holds the message as text instead, for reading and
// tests.
//
//   RETURN_IF_ERROR(WritePlan(plan, "gpt.plan"));
//   ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan("gpt.plan"));  // read_plan.h
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Raised whenever a plan of before would be misread.
inline constexpr int kPlanVersion = 4;

// The file's bytes, the same for equal plans; and back. `where` begins the errors: not a plan, of
// another version, truncated, corrupt. An intact plan may still say anything: ids that
// do not exist, negative sizes.
std::string SerializePlan(const proto::Plan& plan);
absl::StatusOr<proto::Plan> ParsePlan(std::string_view bytes, std::string_view where);

// Writes a temporary file beside `path` and renames it: the file is complete or absent.
absl::Status WritePlan(const proto::Plan& plan, const std::string& path);
// Intact as ParsePlan's, or as the text has it, with the fingerprint of what it says: a text may
// have been edited. For what shows plans that are refused, and looks nothing up by an id without a
// check; all others take ReadPlan (read_plan.h).
absl::StatusOr<proto::Plan> ReadPlanUnchecked(const std::string& path);

}  // namespace oneflow
