// From flags to a plan: --plan read, or a graph compiled by the recipe that flags and --recipe say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/recipe/price_queues.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// --plan read, or CompileFromFlags.
using PlanReader = std::function<absl::StatusOr<proto::Plan>(const std::string& path)>;
absl::StatusOr<proto::Plan> PlanFromFlags(const Arguments& args,
                                          const PlanReader& read = &ReadPlan);

// The graph compiled by the recipe, for a plan that is written or runs. With the graph of the
// checkpoint that a run goes on from, what decides results and is not said is that run's.
absl::StatusOr<proto::Plan> CompileFromFlags(const Arguments& args);

// A plan for a planning verb, and what it costs where its mixture of experts drops nothing:
// planning/recipe/price_queues.h.
struct PricedPlan {
  proto::Plan plan;                  // has room for any routing; `price`, where that does not fit
  std::optional<proto::Plan> price;  // with queues for an imbalance; none: there is no difference
  double imbalance = 0;              // of the price
  std::optional<MostImbalance> fits_up_to;  // where there is no room for any routing
};
// --plan read, or the graph compiled; and the price, of a plan if --imbalance is given.
absl::StatusOr<PricedPlan> PricedPlanFromFlags(const Arguments& args,
                                               const PlanReader& read = &ReadPlan);

// For a search: of a mixture that drops nothing, the price is asked for; of others, --imbalance is
// refused.
absl::Status PriceQueues(const Arguments& args, const proto::Graph& graph, PlanRequest* request);

// The request for a plan: the recipe, the cluster for its mesh, the optimizer.
absl::StatusOr<PlanRequest> RequestFromFlags(const Arguments& args, proto::Recipe recipe);

// The newest checkpoint that can be opened of a run that goes on from one; empty otherwise.
std::string CheckpointOfResume(const proto::Run& run);

// The graph of --graph, of a file, a plan or a named model (named_graph.h); without it, that of the
// model of --recipe, or of the checkpoint that the run begins with, or goes on from.
absl::StatusOr<GraphSource> GraphFromFlags(const Arguments& args);

// The text of --program after a pass of compile: TextAfter in compile.h.
absl::StatusOr<std::string> TextAfterFromFlags(const Arguments& args, const std::string& pass);

// Writes the graph of a plan to --layouts_out, if that is given.
absl::Status WriteLayouts(const proto::Plan& plan);

// `graph` compiled for --mesh and one sequence a device: what `generate` runs.
absl::StatusOr<proto::Plan> CompileToGenerate(const Arguments& args, const proto::Graph& graph);

// `graph` compiled for --mesh, --batch, --micro_batches, --precision, ...: what `eval` runs.
absl::StatusOr<proto::Plan> CompileToEvaluate(const Arguments& args, const proto::Graph& graph,
                                              bool documents);

// The verdict of VerifyPlan in words: kProved, or the refusal.
inline constexpr std::string_view kProved = "live, memory-safe, type-safe";
std::string DescribeProof(const proto::Plan& plan);

// Refuses, with --plan, flags of the optimizer and --threads: in verbs that only read a plan they
// are for a graph that is compiled.
absl::Status CheckFlagsCompile(const Arguments& args);

}  // namespace oneflow
