// The front end of compile for all programs of a plan: graphs whose exchanges stand as ops.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/persistent.h"
#include "compiler/plan_request.h"
#include "compiler/programs.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph/graph_proto.h"
#include "proto/plan.pb.h"

namespace oneflow {

// All programs with boxed graphs, and a plan that has what they share: its header, variables and
// groups.
struct BoxedPrograms {
  std::vector<ProgramDraft> drafts;
  proto::Plan plan;
  PersistentIds ids;
};

// Part of the front end: the passes up to `pass` for the programs up to `program`.
struct FrontEndPart {
  std::string_view program;  // empty: all
  std::string_view pass;     // of the last one; empty: all, and the plan's groups
  bool first = false;        // the first program alone
};

// The result of the front end, and what it was made for.
struct FrontEnd {
  Schedule schedule;
  int stages = 1;
  std::shared_ptr<const BoxedPrograms> boxed;
  proto::Plan plan;  // boxed->plan with the recipe of the request, Completed
};

// The first program decides the layouts of variables. The programs are those of `cache` (may be
// null) where only fields differ that the back end alone obeys.
absl::StatusOr<FrontEnd> RunFrontEnds(const GraphSource& source, const PlanRequest& request,
                                      const FrontEndPart& part, CompileCache* cache);

}  // namespace oneflow
