// Plans that need little memory, made without a search: there are no stages, all that devices may
// split is split, and every block is recomputed.
//
//   ASSIGN_OR_RETURN(const LeanPlan lean, FindLean(spec, {"context=1", "tensor=1"}));
//   lean.bytes            // by a short plan
//   CompileFitting(lean.spec, lean.candidate)   // the plan, if it fits
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/result.h"
#include "planning/search/space.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct LeanPlan {
  SearchSpec spec;
  proto::Recipe candidate;
  double bytes = 0;  // of the device that needs most, by a short plan
};

// Of `spec` with these choices ("context=8"), where its own fixes do not say otherwise: weights,
// states and gradients split, recompute full, one stage. Errors: no plan has all of this.
absl::StatusOr<LeanPlan> FindLean(SearchSpec spec, const std::vector<std::string>& choices);

// A plan that was compiled, proved and simulated.
struct CompiledPlan {
  FoundPlan found;
  proto::Plan plan;
};

// The plan of a request, whose candidate is as given.
absl::StatusOr<CompiledPlan> CompileRequest(const GraphSource& source, const PlanRequest& request,
                                            const proto::Recipe& candidate);

// The candidate's plan; RESOURCE_EXHAUSTED if it does not fit the devices of the spec.
absl::StatusOr<CompiledPlan> CompileFitting(const SearchSpec& spec, const proto::Recipe& candidate);

// The same as if devices had any memory.
absl::StatusOr<CompiledPlan> CompileAnyway(const SearchSpec& spec, const proto::Recipe& candidate);

}  // namespace oneflow
