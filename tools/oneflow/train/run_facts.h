// The facts that must be the same in all processes of a run: the program, its instruction set,
// choices, data and the plan.
//
//   ASSIGN_OR_RETURN(facts, FactsOfRun(run, fingerprint));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "training/job/job.h"

namespace oneflow {

// Every choice of `run` but those that may differ among its processes (Row::differs: where files
// are, what one process alone writes); data is compared by content, not by path. `fingerprint`: of
// the plan; empty: this process has none, and takes process 0's. An input error: data that cannot
// be read.
absl::StatusOr<std::vector<JoinFact>> FactsOfRun(const proto::Run& run,
                                                 const std::string& fingerprint);

}  // namespace oneflow
