// Compiles a logical graph to a proved plan. It obeys a recipe and chooses nothing that the recipe
// says (planning/recipe writes complete ones).
//
//   const proto::Recipe recipe = MakeRecipe("--mesh=data=2,pipe=2 --batch=16 --micro_batches=4");
//   ASSIGN_OR_RETURN(const GraphSource source, ReadGraphFile("gpt.textproto"));
//   ASSIGN_OR_RETURN(proto::Plan plan, Compile(source, {recipe, cluster}));
//
// The programs of a plan:
//   init, save, load   always
//   train, eval        if the graph has a loss
//   generate           if it also has an output: forward to the first output, one sequence a data
//                      part
//   run                if it has no loss or no "batch": every output is fetched, raw (the local
//                      piece, in its own SBP; attribute raw = true) and resolved (partial values
//                      summed; raw = false)
// With Recipe::GENERATION a plan that continues texts has, besides init, save and load, only
//   prefill, decode    forward for the next positions of a sequence, or to the first output for
//                      the next one: inputs are the tokens of these and "position", that of the
//                      first; keys and values of earlier positions are in caches, which prefill
//                      only fills. prefill_64 and prefill_16 are for fewer positions.
// With Recipe::EVALUATION it has, besides init, save and load, only eval, and no memory for a
// training.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/plan_request.h"
#include "oneflow_core/graph/graph_proto.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Returns a plan that has passed VerifyPlan and has its fingerprint. Input errors name the location
// and a hint; a plan that does not fit a device is RESOURCE_EXHAUSTED. A pure function: equal
// arguments give equal plans. `cache` may be null.
absl::StatusOr<proto::Plan> Compile(const GraphSource& source, const PlanRequest& request,
                                    CompileCache* cache = nullptr);
// `file`: the graph's file, for errors; its lines are not known.
absl::StatusOr<proto::Plan> Compile(const proto::Graph& graph, std::string_view file,
                                    const PlanRequest& request);

// Returns the program train alone, with orders and slots, but without addresses, orders of issue
// and proof: it predicts a step in a fraction of the time. Its actors, slots and orders are those
// of the compiled plan. It can be simulated (SimulateProved), but not run. facts.lower_bound_bytes
// count this program and all variables, so no compiled plan needs less.
//
// Requires a graph with a loss. A plan that does not fit a device is no error.
absl::StatusOr<proto::Plan> DraftPlan(const GraphSource& source, const PlanRequest& request,
                                      CompileCache* cache = nullptr);

// The names of the passes of compile, in their order: front_end.h, back_end.h.
std::vector<std::string> PassNames();

// Prints a program after a pass: its graph, or from `lower` on its actors. It has all its
// micro-batches.
absl::StatusOr<std::string> TextAfter(const GraphSource& source, const PlanRequest& request,
                                      std::string_view program, std::string_view pass);

}  // namespace oneflow
