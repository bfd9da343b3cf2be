// Shared by several verbs: from flags to a plan, a cluster, an optimizer. Words that the table of
// flags lists have been checked when the arguments were parsed (SetFlag), and are not again.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/verify/read_plan.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// --plan read, or --graph compiled for --mesh, --batch, ... on the way.
using PlanReader = std::function<absl::StatusOr<proto::Plan>(const std::string& path)>;
absl::StatusOr<proto::Plan> PlanFromFlags(const Arguments& args,
                                          const PlanReader& read = &ReadPlan);

// --graph compiled for --mesh, --batch, --micro_batches, --schedule, --precision, --memory and
// the optimizer's flags; with the graph of CheckpointOfResume, what decides results and no flag
// says is that run's.
absl::StatusOr<proto::Plan> CompileFromFlags(const Arguments& args);

// All options of compile that flags say, for this mesh: those of the verb, and of other flags their
// defaults.
absl::StatusOr<PlanRequest> RequestFromFlags(const Arguments& args, const Mesh& mesh);

// The newest checkpoint of --checkpoint_dir that can be opened, where --resume goes on from one;
// empty otherwise.
std::string CheckpointOfResume();

// The file of --graph; without it, the graph of the checkpoint of --init_from, or of
// CheckpointOfResume.
absl::StatusOr<std::string> GraphFileFromFlags();

// The text of --program after a pass of compile: TextAfter in compile.h.
absl::StatusOr<std::string> TextAfterFromFlags(const Arguments& args, const std::string& pass);

// --cluster, read and checked; without it a made-up CPU that says nothing of its rates
// (oneflow_core/cost/kernel_cost.h). An input error where a plan of GPUs would be timed as one of
// CPUs.
absl::StatusOr<proto::Cluster> ClusterToSimulate(const proto::Plan& plan);
// The same, of a plan in --processes, where they are given.
absl::StatusOr<proto::Cluster> ClusterToSimulate(const Arguments& args, const proto::Plan& plan);

// --steps where it is given, else two: the second is one among others.
int64_t StepsToSimulate(const Arguments& args);

// Writes the graph of a plan to --layouts_out, if that is given.
absl::Status WriteLayouts(const proto::Plan& plan);

// `graph` compiled for --mesh and one sequence a device: what `generate` runs.
absl::StatusOr<proto::Plan> CompileToGenerate(const Arguments& args, const proto::Graph& graph);

// `graph` compiled for --mesh, --batch, --micro_batches, --precision, ...: what `eval` runs.
absl::StatusOr<proto::Plan> CompileToEvaluate(const Arguments& args, const proto::Graph& graph,
                                              bool documents);

// `given`, overridden by every optimizer flag that the user gave; null: all flags, defaults
// included.
absl::StatusOr<proto::Optimizer> OptimizerFromFlags(const Arguments& args,
                                                    const proto::Optimizer* given);

// The verdict of VerifyPlan in words: kProved, or the refusal.
inline constexpr std::string_view kProved = "live, memory-safe, type-safe";
std::string DescribeProof(const proto::Plan& plan);

// --threads, or all cores.
absl::StatusOr<int> ThreadsFromFlags();

// Refuses, with --plan, flags of the optimizer and --threads: in verbs that only read a plan they
// are for a graph that is compiled.
absl::Status CheckFlagsCompile(const Arguments& args);

}  // namespace oneflow
