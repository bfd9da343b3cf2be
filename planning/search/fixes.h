// The choices that a user fixes for the search, with --fix=NAME=VALUE.
//
//   Fixes fixes;
//   RETURN_IF_ERROR(AddFixes("--fix=", "pipe=4,tensor=8,recompute=full,gather", &fixes));
//   ToString(fixes)  ->  "pipe=4,tensor=8,recompute=full,gather"
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proto/recipe.pb.h"

namespace oneflow {

struct Fixes {
  proto::Recipe recipe;  // of what the search chooses (Searched::kChosen), what is fixed
  // The degrees of axes (pipe, data, expert, context, tensor), and micro_batch_size: sequences of
  // the data part that has most, in a micro-batch.
  std::map<std::string, int> sizes;
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
