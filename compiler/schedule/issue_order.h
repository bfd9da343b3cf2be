// The order in which each stage issues its exchanges: the sequence in which they begin when the
// program is played by a clock, each stream as soon as it may, an exchange when all its members are
// ready. That order is one in which all stages can go on (they just did), and it comes as early as
// the prices of the actors say that an exchange can. Any other order that is as early for one stage
// may stand still with those of others: a receive before its turn waits for a send that waits.
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

// The orders of one step, run-length coded. `seconds`: of a firing, by actor. If the game
// deadlocks, the order ends there, and the proof reports the deadlock.
absl::StatusOr<IssueOrders> PlayIssueOrders(const proto::Plan& plan, const proto::Program& program,
                                            const std::vector<double>& seconds);

// The orders for a program of which `few` and `more` are those of so many micro-batches: what there
// is more of in `more` comes `times` times more than in `few`. None, if neither their runs are the
// same nor the runs inside of these (of the steps of a round). A proof has to say that they are
// live: they are a guess.
std::optional<IssueOrders> Extended(const IssueOrders& few, const IssueOrders& more, int64_t times);

}  // namespace oneflow
