// The order in which each stage issues its exchanges. It is the sequence in which they begin when
// the program is played by a clock. Each stream fires as soon as it may, and an exchange when all
// its members are ready. All stages can go on in that order, as the play shows, and it is as early
// as the times of the actors allow. Another order that is as early for one stage may deadlock with
// those of others: a receive before its turn waits for a send that waits.
//
//   ASSIGN_OR_RETURN(IssueOrders orders, PlayIssueOrders(plan, program, seconds));
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

using IssueOrders = std::vector<proto::IssueOrder>;  // of the stages that have exchanges, ascending

// Returns the orders of one step, run-length coded. `seconds`: of a firing, by actor. If the game
// deadlocks, the order ends there, and the proof reports the deadlock.
absl::StatusOr<IssueOrders> PlayIssueOrders(const proto::Plan& plan, const proto::Program& program,
                                            const std::vector<double>& seconds);

// Extrapolates orders from those of two numbers of micro-batches: the additional repeats of `more`
// are added `times` times to `few`. Returns nullopt unless their runs are the same, or the runs
// inside these (of the steps of a round). The result is a guess: a proof must show that it is live.
std::optional<IssueOrders> Extended(const IssueOrders& few, const IssueOrders& more, int64_t times);

}  // namespace oneflow
