// The head of the page of a plan: four figures with what is known of each, and the choices of the
// plan in a line.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "planning/simulate/summary.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// [[name, value, range, note], ...] of the time of a step, tokens a second, MFU and the memory of a
// device; a range is that of 1 sigma, of memory its share of what the device offers. "" of what is
// not known; a figure that is not known is left out.
nlohmann::ordered_json PageHead(const SimulationSummary& summary, const proto::Device& device);

// "128 devices", "pipe=8,data=2,tensor=8", ...: mesh, batch, schedule, precision, proof, price.
std::vector<std::string> PageFacts(const proto::Plan& plan, const SimulationSummary& summary,
                                   const std::string& proof, const std::string& price);

// "gpt, pipe=2, 1f1b, batch 8: 12.3 ms a step".
std::string PageTitle(const proto::Plan& plan, const SimulationSummary& summary);

}  // namespace oneflow
