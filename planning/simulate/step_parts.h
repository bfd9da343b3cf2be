// StepParts: why a step takes as long as it does. Its time, divided by what a device does in it.
//
//   for (const StepPart& part : FindStepParts(plan, run, FindUtilization(run))) {
//     std::printf("%s %s\n", part.name.c_str(), TimeText(part.seconds).c_str());
//   }
//
// Parts are those of a device on average over the stages, and add up to SimulatedRun::StepSeconds.
// They are not those of the critical path, which leads from device to device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning/simulate/simulate.h"
#include "planning/simulate/utilization.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct StepPart {
  std::string name;
  double seconds = 0;  // of a step
};

// What an actor does, in the words of the parts: "products", "attention" (in one kernel), "other
// compute" and "update" of the device; "exchange" within its stage, "transfer" to another stage,
// "copy" from or to the host, "host". By concrete actor.
std::vector<std::string_view> FindWork(const proto::Plan& plan, const SimulatedRun& run);

// "products", "attention", "other compute", "update": kernels; "exposed exchange": within the
// stage, while no kernel runs; "exposed copy", where the plan moves data to its host; "bubble":
// waits for other stages and transfers between them that nothing hides (Utilization). Parts that
// take no time are left out.
std::vector<StepPart> FindStepParts(const proto::Plan& plan, const SimulatedRun& run,
                                    const Utilization& use);

}  // namespace oneflow
