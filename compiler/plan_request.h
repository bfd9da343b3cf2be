// What a plan is made for, and what is handed on between compilations. Part of compile.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/sbp/known_layouts.h"
#include "proto/cluster.pb.h"
#include "proto/recipe.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

// Uses of weights that are gathered ahead, where memory allows.
inline constexpr int kUsualPrefetch = 2;

// Firings that a stream of a GPU may have issued and not completed: enough to hide the time of
// their launches.
inline constexpr int kLaunchQueue = 64;

struct BoxedPrograms;  // boxed_programs.h

// What a plan is made for, beside its graph.
struct PlanRequest {
  proto::Recipe recipe;        // absent fields: WithDefaults, and what this header says of them
  proto::Cluster cluster;      // costs, capacity of a device and its kernel threads
  proto::Optimizer optimizer;  // kept in the plan for a training that gives no other numbers
  // Layouts that calls with other requests have found; a call adds its own. They change no plan,
  // but it is made sooner. null: each call keeps its own. May be shared between threads.
  std::shared_ptr<KnownLayouts> known_layouts = nullptr;
  // Queues of a mixture that drops nothing have so many times the slots of even routing, for a plan
  // that is priced and must not run (annotate_queues.h); 0: as many as any routing needs.
  double imbalance = 0;
  std::stop_token stop = {};  // asked between steps; a compilation that is stopped is CANCELLED
};

// The graphs of the last front end, which compilations of one graph hand on to each other. They
// change no plan, but it is made sooner.
struct CompileCache {
  std::shared_ptr<const BoxedPrograms> boxed;  // null: none yet
  std::string key;                             // of `boxed`
};

// The request with every field of the recipe that compile obeys: WithDefaults; overlap, which is
// not on CPU devices, where exchanges would take the cores that compute; prefetch; and what the
// schedule says, steps_a_round and no global_norm where steps overlap. Errors: those of
// CheckRecipe, and of the schedule.
absl::StatusOr<PlanRequest> Completed(PlanRequest request);

}  // namespace oneflow
