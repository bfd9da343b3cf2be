// oneflow explain: what a plan is: text for people, json for programs, dot for pictures.
#include <cstdio>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_dot.h"
#include "oneflow_core/plan/plan_json.h"
#include "oneflow_core/plan/plan_text.h"
#include "tools/oneflow/flags.h"
#include "tools/oneflow/load.h"
#include "tools/oneflow/precision.h"
#include "tools/oneflow/verb.h"

namespace oneflow {
namespace {

absl::Status Explain(const Arguments& args) {
  ASSIGN_OR_RETURN(const std::string format, FormatFromFlags({"text", "json", "dot"}));
  ASSIGN_OR_RETURN(const proto::Plan plan, PlanFromFlags(args));
  std::string text;
  if (format == "json") {
    text = PlanJson(plan, ProofOf(plan));
  } else if (format == "dot") {
    ASSIGN_OR_RETURN(text, PlanDot(plan, FLAGS_program));
  } else {
    text = FLAGS_full ? PlanText(plan) : PlanSummary(plan, ProofOf(plan)) + PrecisionText(plan);
  }
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

Verb ExplainVerb() {
  return {"explain",
          "say what a plan does, needs and why",
          "  oneflow explain --plan=gpt.plan\n"
          "  oneflow explain --plan=gpt.plan --format=json\n"
          "  oneflow explain --plan=gpt.plan --format=dot --program=train | dot -Tsvg > plan.svg\n",
          {"plan", "graph", "mesh", "batch", "micro_batches", "schedule", "precision", "memory",
           "cluster", "threads", "format", "program", "full"},
          Explain};
}

}  // namespace oneflow
