// Lowers the boxed graph to a program. Tensors become registers, ops become actors, stages and
// phases become segments:
//
//   variable            the persistent register of its stage; no actor
//   input               a host actor: load_tokens, or feed
//   ops that update     adamw's w, m, v, and caches, are outputs only: updated in place
//   versioned updates   read the newest version of a variable and write the next into its slot
//   boxing ops          exchanges of a group, or local copies (boxing.h); with `overlap` of the
//   recipe exchanges
//                       stand on streams of their own (overlap.h), small ones together (buckets.h)
//   transfer            a send on the stage that has the tensor and a receive on the one that wants
//                       it, each on a stream of its kind, in a separate segment
//   all other ops       an actor of the stage, in the segment P, F, B, W or U; of several chunks
//                       each has an F0, F1, ... of its own
//
// With `splits_backward`, W has the products of the backward whose results only reach the update.
//
//   ASSIGN_OR_RETURN(Lowered lowered, LowerToActors(graph, ids, plan, {.name = "train",
//   .micro_batches = 8}));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/lowered.h"
#include "compiler/lower/persistent.h"
#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A tensor that the program hands to the host.
struct HostOutput {
  std::string kernel;  // "report" | "fetch"
  std::string name;
  std::vector<TensorId> tensors;
  AttrMap attrs;
};

// What a program is, beside its graph and the plan's recipe.
struct ProgramSpec {
  std::string name;
  int64_t micro_batches = 1;  // of a step
  int64_t micro_batch_size = 1;
  int64_t steps_a_round = 1;
  bool feed_inputs = false;      // every input is fed, also tokens and labels
  int chunks = 1;                // of every stage, each with segments F and B of its own
  bool splits_backward = false;  // W is the gradients of weights that are products
  std::vector<HostOutput> outputs;
};

// Requires inferred SBP and inserted boxing. Of `plan` it reads the header (device kind, threads,
// recipe and cluster) and the groups, at least those of the graph (groups.h).
absl::StatusOr<Lowered> LowerToActors(const Graph& graph, const PersistentIds& ids,
                                      const proto::Plan& plan, const ProgramSpec& spec);

}  // namespace oneflow
