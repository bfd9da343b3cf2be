// Compiles a logical graph to a proved plan.
//
//   CompileOptions options{.mesh = *ParseMesh("data=2,pipe=2")};
//   options.train.set_batch(16), options.train.set_micro_batches(4);
//   options.train.set_schedule("1f1b");
//   ASSIGN_OR_RETURN(const GraphSource source, ReadGraphFile("gpt.textproto"));
//   ASSIGN_OR_RETURN(proto::Plan plan, Compile(source, options));
//
// The programs of a plan:
//   init, save, load   always
//   train, eval        if the graph has a loss
//   generate           if it also has an output: forward to the first output, one sequence a data
//                      part
//   run                if it has no loss or no "batch": every output is fetched, raw (the local
//                      piece, in its own SBP; attribute raw = true) and resolved (partial values
//                      summed; raw = false)
// With options.generate a plan that continues texts has, besides init, save and load, only
//   prefill, decode    forward to the first output for the next kPrefillPositions positions of a
//                      sequence, or the next one: inputs are the tokens of these and "position",
//                      that of the first; keys and values of earlier positions are in caches
// With options.evaluate it has, besides init, save and load, only eval, and no memory for a
// training.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/known_layouts.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/model/offload.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

// The most positions of one firing of prefill: enough for products of matrices, few enough that a
// short text does not take the time of a long one.
inline constexpr int64_t kPrefillPositions = 64;

// The most bytes of small exchanges that become one: the default of PyTorch's
// DistributedDataParallel.
inline constexpr int64_t kBucketBytes = 25'000'000;

// Firings that a stream of a GPU may have issued and not completed: enough to hide the time of
// their launches.
inline constexpr int kLaunchQueue = 64;

// Uses of weights that are gathered ahead: the most, and the default where memory allows.
inline constexpr int kMostPrefetch = 8;
inline constexpr int kUsualPrefetch = 2;
inline constexpr int kMostContextPieces = 64;

struct CompileOptions {
  Mesh mesh;                      // no axes: one device
  proto::Train train;             // batch, micro_batches, schedule, optimizer
  std::optional<Schedule> order;  // a user's own (order_file.h), in the place of train.schedule
  proto::Cluster cluster;         // capacity of a device and its kernel threads
  proto::DeviceKind device_kind = proto::CPU;
  // Holds as many micro-batches as fit a device, where that shortens the bubble (fill_memory.h).
  bool fill_memory = false;
  bool generate = false;  // prefill and decode instead of train, eval, generate and run
  bool evaluate = false;  // eval alone instead of these; the graph has a loss
  // True: infer_sbp may split positions of a sequence where no constraint says so, and the residual
  // stream of a GPT is free on tensor axes. So there is sequence parallelism where it costs no
  // more.
  bool split_positions = false;
  Sharding shard = {};      // of variables, over data axes
  Offload offload = {};     // the data that rests in host memory
  int64_t host_memory = 0;  // bytes that a node's devices may take of the host's; 0: unlimited
  std::string experts;      // the axis that splits experts (AnnotateOptions::experts)
  // True: the axes of `mesh` keep their order. False: on a cluster of several levels, the axes that
  // exchange most become the innermost (order_axes.h), and the plan's mesh has that order. The
  // order of axes other than the stages' changes bits. So it depends on graph, cluster, sizes of
  // these axes and micro-batches alone.
  bool keep_axis_order = false;
  // True: exchanges of a stage overlap its computation (lower/overlap.h). nullopt: they do, except
  // on CPU devices, where they would take the cores that compute.
  std::optional<bool> overlap;
  int64_t bucket_bytes = kBucketBytes;  // lower/buckets.h
  // Uses of weights whose gathers run ahead of compute, 0 to kMostPrefetch (schedule/prefetch.h);
  // 0: a weight is gathered just before it is read. The default is kUsualPrefetch, or the largest
  // smaller number that fits the device. Only where exchanges overlap computation.
  std::optional<int> prefetch;
  // Pieces, 1 to kMostContextPieces, in which keys and values of attention are gathered where axes
  // split positions (passes/piece_attention.cc). They change no bit.
  int context_pieces = 1;
  // The graph in the plan states all chosen layouts (proto OpLayout). Compiled again with the same
  // options, it has the same layouts, even if the costs have changed.
  bool state_layouts = false;
  // The number of blocks of a GPT at each position along the pipe (annotate_model.h); empty:
  // balanced.
  std::vector<int> stage_layers;
  // Layouts that calls with other options have found; this call adds its own. They change no plan,
  // but it is made sooner. null: Compile keeps its own. May be shared between threads.
  std::shared_ptr<KnownLayouts> known_layouts;
};

bool OverlapsExchanges(const CompileOptions& options);

// Returns a plan that has passed VerifyPlan and has its fingerprint. Input errors name the location
// and a hint; a plan that does not fit a device is RESOURCE_EXHAUSTED. A pure function: equal
// arguments give equal plans.
absl::StatusOr<proto::Plan> Compile(const GraphSource& source, const CompileOptions& options);
// `file`: the graph's file, for errors; its lines are not known.
absl::StatusOr<proto::Plan> Compile(const proto::Graph& graph, std::string_view file,
                                    const CompileOptions& options);

// Returns the program train alone, with orders and slots, but without addresses, orders of issue
// and proof: it predicts a step in a fraction of the time. Its actors, slots and orders are those
// of the compiled plan, if that has as many uses gathered ahead (options.prefetch). It can be
// simulated (SimulateProved), but not run. facts.lower_bound_bytes count this program and all
// variables, so no compiled plan needs less.
//
// Requires a graph with a loss. A plan that does not fit a device is no error, and micro-batches
// are not filled up (fill_memory).
absl::StatusOr<proto::Plan> DraftPlan(const GraphSource& source, const CompileOptions& options);

// The names of the passes of compile, in their order: front_end.h, back_end.h.
std::vector<std::string> PassNames();

// Prints a program after a pass: its graph, or from `lower` on its actors. It has all its
// micro-batches, and an order of zero_bubble that is not fitted to the cluster. Without
// options.prefetch it has kUsualPrefetch, whether or not that fits.
absl::StatusOr<std::string> TextAfter(const GraphSource& source, const CompileOptions& options,
                                      std::string_view program, std::string_view pass);

}  // namespace oneflow
