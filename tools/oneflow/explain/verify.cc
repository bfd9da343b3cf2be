// oneflow verify: proves a plan again: types, liveness, memory; and that its kernels do the work
// that was compiled.
#include <cstdio>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/read_plan.h"
#include "oneflow_core/verify/verify_plan.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/load.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

absl::Status Verify(const Arguments& args) {
  const std::string& format = FLAGS_format;
  if (FLAGS_plan.empty()) return InputError("--plan", "is missing", "write --plan=gpt.plan");
  ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(FLAGS_plan));
  RETURN_IF_ERROR(Annotate(VerifyPlan(plan, {.work = true}), FLAGS_plan));
  if (format == "json") {
    const nlohmann::ordered_json json = {{"plan", plan.fingerprint()}, {"verdict", kProved}};
    std::printf("%s\n", JsonText(json).c_str());
    return absl::OkStatus();
  }
  for (const proto::Program& program : plan.program()) {
    std::printf(
        "%-9s live: one step of %lld micro-batch(es) returns to the initial marking; "
        "no two live registers overlap; every edge's layout agrees\n",
        program.name().c_str(), static_cast<long long>(program.micro_batches()));
  }
  return absl::OkStatus();
}

}  // namespace

Verb VerifyVerb() {
  return {verbs::kVerify, "prove a plan: types, liveness, memory",
          "oneflow verify --plan=gpt.plan\n", Verify};
}

}  // namespace oneflow
