// How far a question may grow: the largest batch of one micro-batch, the longest sequence, the most
// unequal load of experts of which a plan fits; and where nothing fits, the nearest that does.
//
// Sizes are told by the short plans of lean plans (lean.h), whose bytes grow nearly in a line: so
// few are made. They are told apart to a sixteenth. What comes back as fitting was compiled.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/fit/fit.h"
#include "planning/fit/lean.h"

namespace oneflow {

// All sequences of the batch in one micro-batch: more fit by accumulation. `left`: seconds.
FitChange FindLargestBatch(const FitQuestion& question, const std::function<double()>& left);

// One sequence at a time, which all devices share; as many tokens a step as the question has.
FitChange FindLongestSequence(const FitQuestion& question, const std::function<double()>& left);

// Of a mixture that drops nothing, for the plan that is advised. `seconds`: that it took to make.
FitChange FindMostUnequal(const FitQuestion& question, const FoundPlan& best,
                          const proto::Plan& plan, double seconds,
                          const std::function<double()>& left);

// Where nothing fits: twice, four times, ... as many devices, and half, a quarter, ... of a
// sequence, each the first that fits; those that do not help are left out.
std::vector<FitChange> FindChanges(const FitQuestion& question,
                                   const std::function<double()>& left);

}  // namespace oneflow
