// Plan files. A file has a header of 40 bytes (magic, format version, length, checksum) and a
// binary Plan message. A path that ends in ".textproto" holds the message as text instead, for
// reading and tests.
//
//   RETURN_IF_ERROR(WritePlan(plan, "gpt.plan"));
//   ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan("gpt.plan"));  // read_plan.h
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The version of the format, raised whenever an earlier plan would be misread.
inline constexpr int kPlanVersion = 5;

// Converts plans to the bytes of a file, the same for equal plans, and back. `where` begins the
// errors: not a plan, of another version, truncated, corrupt. An intact plan may still say
// anything: ids that do not exist, negative sizes.
std::string SerializePlan(const proto::Plan& plan);
absl::StatusOr<proto::Plan> ParsePlan(std::string_view bytes, std::string_view where);

// Writes a temporary file beside `path` and renames it: the file is complete or absent.
absl::Status WritePlan(const proto::Plan& plan, const std::string& path);
// Reads a plan that is intact as ParsePlan's, or as the text has it; the fingerprint is computed,
// because a text may have been edited. For tools that show refused plans, and look nothing up by an
// id without a check. All others call ReadPlan (read_plan.h).
absl::StatusOr<proto::Plan> ReadPlanUnchecked(const std::string& path);

}  // namespace oneflow
