// The page of `explain --format=html`: a plan simulated, as one file that needs no network: one
// step as a timeline, memory over time on the same axis, what the step is made of, the critical
// path, the costliest actors and boxing.
//
//   std::string html = ExplainPage(plan, "live, memory-safe, type-safe", Summarize(...));
//
// The page (page.html, page_text.js, page_timeline.js and page.js) draws two JSON objects that it
// holds in script elements:
//   "simulation"  that of `oneflow simulate --format=json`, with the blocks of the last step alone;
//                 if these are many, neighbours are condensed (condense.h), so that the page stays
//                 a few MB
//   "plan"        PageJson: the facts of the plan, and rows of actors, those of all layers in one
#pragma once

#include <string>
#include <string_view>

#include "planning/simulate/condense.h"
#include "planning/simulate/summary.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/explain/plan_origin.h"

namespace oneflow {

// The origin of the plan, and the device it is for, where they are known.
struct PageFrame {
  PlanOrigin origin;
  proto::Device device;
};

// `proof`: the line on it, as of PlanSummary. `price`: what memory and times are priced at
// (PriceText); "" where the plan has no price. `live_script`: JavaScript that runs when the page is
// drawn and may fill its section "live"; the head of page.js lists what it may use. Requires that
// it does not hold the end of a script element.
std::string ExplainPage(const proto::Plan& plan, const std::string& proof,
                        SimulationSummary summary, const std::string& price = "",
                        std::string_view live_script = "", const PageFrame& frame = {});

// {"title", "head": PageHead, "facts": PageFacts, "command", "recipe", "fingerprint", "condensed",
// "rows", "variables"}. `rows`: actors that are named alike but for numbers and run the same
// kernel, the costliest first, each {"name", "kernel", "boxing", "actors", "seconds_a_step": of the
// stage where it is the most, ..., "members": the costliest of them}. `variables`: groups of
// variables that are split and exchanged alike, each the members of VariableJson and {"name",
// "variables": their number, "text": the words of variable_text.h}.
std::string PageJson(const proto::Plan& plan, const std::string& proof,
                     const SimulationSummary& summary, const Condensation& condensed,
                     const std::string& price, const PageFrame& frame);

}  // namespace oneflow
