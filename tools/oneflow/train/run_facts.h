// The facts that must be the same in all processes of a run: the program, its instruction set,
// flags, data and the plan.
//
//   ASSIGN_OR_RETURN(facts, FactsOfRun(args, FlagsOfVerb(verbs::kTrain), fingerprint));
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/oneflow/cli/verb.h"
#include "training/job/job.h"

namespace oneflow {

// `flags`: all of the verb; those that may differ (where files are, what one process alone writes,
// what the plan has fixed) are passed over, so that a new flag is compared unless somebody says
// otherwise. `fingerprint`: of the plan; empty: this process has none, and takes process 0's. Data
// is compared by content, not by path. An input error: data that cannot be read.
absl::StatusOr<std::vector<JoinFact>> FactsOfRun(const Arguments& args,
                                                 std::span<const std::string_view> flags,
                                                 const std::string& fingerprint);

}  // namespace oneflow
