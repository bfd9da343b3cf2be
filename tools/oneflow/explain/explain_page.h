// The page of `explain --format=html`: a plan simulated, as one file that needs no network: the
// pipeline as a timeline, memory over time on the same axis, the critical path, the costliest
// actors and boxing.
//
//   std::string html = ExplainPage(plan, "live, memory-safe, type-safe", Summarize(...));
//
// The page (page.html and page.js) draws two JSON objects that it holds in script elements:
//   "simulation"  that of `oneflow simulate --format=json`; of long runs with neighbouring blocks
//                 condensed (condense.h), so that the page stays a few MB
//   "plan"        PageJson: the facts of the plan, and rows of actors, those of all layers in one
#pragma once

#include <string>
#include <string_view>

#include "planning/simulate/condense.h"
#include "planning/simulate/summary.h"
#include "proto/plan.pb.h"

namespace oneflow {

// `proof`: the line on it, as of PlanSummary. `price`: what memory and times are priced at
// (PriceText); "" where the plan has no price. `live_script`: JavaScript that runs when the page is
// drawn and may fill its section "live"; the head of page.js lists what it may use. Requires that
// it does not hold the end of a script element.
std::string ExplainPage(const proto::Plan& plan, const std::string& proof,
                        SimulationSummary summary, const std::string& price = "",
                        std::string_view live_script = "");

// {"mesh", "batch", "micro_batches", "schedule", "precision", "compared": the words
// behind the time of a step, "price", "proof", "fingerprint", "condensed",
// "rows", "axes", "variables"}. `rows`: actors that are named alike but for numbers and run the
// same kernel, the costliest first, each {"name", "kernel", "boxing", "actors", "seconds_a_step":
// of the stage where it is the most, ..., "members": the costliest of them}. `axes`: [name, size]
// of the mesh, but for that of stages. `variables`: groups of variables that are split and
// exchanged alike, each the members of VariableJson and {"name", "variables": their number, "text":
// the words of variable_text.h}.
std::string PageJson(const proto::Plan& plan, const std::string& proof,
                     const SimulationSummary& summary, const Condensation& condensed,
                     const std::string& price);

}  // namespace oneflow
