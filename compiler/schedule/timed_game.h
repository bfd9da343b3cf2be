// Plays a program by a clock: each stream fires as soon as it may, a send and its receive together,
// and a firing takes the given seconds. It knows slots, rates and orders, but no bytes and no
// worker threads. It is neither the proof nor the simulator, which drives the runtime's actors.
//
//   PlayByClock(net, seconds, [&](int actor, double now) { ... begins },
//               [&](int actor, double now) { ... ends });
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Plays one step. `seconds`: of a firing, by actor. Calls begin(actor, now) and end(actor, now) in
// the order of time; at one moment all ends come before anything begins. Returns the time at which
// the last firing ends. Ends early if the program deadlocks.
double PlayByClock(const PlanNet& net, const std::vector<double>& seconds,
                   absl::FunctionRef<void(int actor, double now)> begin,
                   absl::FunctionRef<void(int actor, double now)> end);

}  // namespace oneflow
