// oneflow verify: proves a plan again: types, liveness, memory; and that its kernels do the work
// that was compiled.
#include <string>

#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/read_plan.h"
#include "oneflow_core/verify/verify_plan.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

absl::Status Verify(const Arguments& args) {
  if (FLAGS_plan.empty()) return InputError("--plan", "is missing", "write --plan=gpt.plan");
  ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(FLAGS_plan));
  RETURN_IF_ERROR(Annotate(VerifyPlan(plan, {.work = true}), FLAGS_plan));
  std::string text;
  for (const proto::Program& program : plan.program()) {
    absl::StrAppendFormat(
        &text,
        "%-9s live: one step of %d micro-batch(es) returns to the initial marking; "
        "no two live registers overlap; every edge's layout agrees\n",
        program.name(), program.micro_batches());
  }
  return Print(text, {{"plan", plan.fingerprint()}, {"verdict", kProved}});
}

}  // namespace

Verb VerifyVerb() {
  return {verbs::kVerify, "prove a plan: types, liveness, memory",
          "oneflow verify --plan=gpt.plan\n", Verify};
}

}  // namespace oneflow
