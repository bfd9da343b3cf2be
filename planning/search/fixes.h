// What a user fixes of the search, of --fix=NAME=VALUE.
//
//   Fixes fixes;
//   RETURN_IF_ERROR(AddFixes("--fix=", "pipe=4,tensor=8,shard=states:data,gradients:data",
//   &fixes)); ToString(fixes)  ->  "pipe=4,tensor=8,shard=states:data,gradients:data"
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace oneflow {

// The axes of a searched mesh, in its order.
inline constexpr std::string_view kSearchedAxes[] = {"pipe", "data", "expert", "context", "tensor"};

// A name is an axis, or a flag of compile that the search chooses, or micro_batch_size.
struct Fixes {
  std::map<std::string, int> degrees;  // by axis
  std::optional<int64_t> micro_batches;
  std::optional<int64_t> micro_batch_size;  // sequences of a data part in a micro-batch
  std::optional<std::string> schedule;
  std::optional<int> chunks;
  std::optional<int64_t> extra_in_flight;
  std::optional<bool> sequence_parallel;
  std::optional<std::string> shard, recompute, offload;  // words of the flags of these names
  std::optional<std::vector<int>> stage_layers;
  bool operator==(const Fixes&) const = default;
};

// "pipe=4,tensor=8" or "schedule=1f1b" added to `fixes`. A value may have commas: what follows a
// comma and is no NAME=VALUE belongs to the value before it. Errors begin with `flag` and name: a
// name that is not known (with the nearest), a value that is none of it, or one that contradicts an
// earlier.
absl::Status AddFixes(const std::string& flag, const std::string& text, Fixes* fixes);

// The names that AddFixes knows.
std::vector<std::string> FixNames();

// "NAME=VALUE" of each.
std::vector<std::string> ListFixes(const Fixes& fixes);
std::string ToString(const Fixes& fixes);  // ListFixes with commas between

// `fixes` without the one of this name.
Fixes WithoutFix(Fixes fixes, const std::string& name);

}  // namespace oneflow
