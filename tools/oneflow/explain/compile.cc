// oneflow compile: lowers a graph to a plan, proves it and writes it.
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/print/plan_json.h"
#include "oneflow_core/print/plan_text.h"
#include "planning/recipe/price_queues.h"
#include "tools/oneflow/cli/check_decay.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/precision.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/emit_plan.h"
#include "tools/oneflow/explain/emit_schedule.h"
#include "tools/oneflow/explain/headline.h"
#include "tools/oneflow/explain/lock_file.h"

namespace oneflow {
namespace {

// What is written has room for any routing of experts, and no price.
absl::StatusOr<PricedPlan> PlanFor(const Arguments& args) {
  if (FLAGS_out.empty()) return PricedPlanFromFlags(args);
  if (args.Given("imbalance")) {
    return InputError("--imbalance", "is for a price, and a plan is written",
                      "leave out one of --imbalance and --out");
  }
  PricedPlan result;
  ASSIGN_OR_RETURN(result.plan, CompileFromFlags(args));
  return result;
}

absl::Status CompileGraph(const Arguments& args) {
  RETURN_IF_ERROR(CheckEmitFlags(args));
  RETURN_IF_ERROR(CheckLockable(args));
  ASSIGN_OR_RETURN(const PricedPlan priced, PlanFor(args));
  const proto::Plan& plan = priced.plan;
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  RETURN_IF_ERROR(CheckDecay(run.optimizer(), plan.optimizer()));
  if (!FLAGS_out.empty()) RETURN_IF_ERROR(WritePlan(plan, FLAGS_out));
  RETURN_IF_ERROR(WriteLayouts(plan));
  ASSIGN_OR_RETURN(const Report schedule, EmitSchedule(plan));
  const absl::StatusOr<proto::Cluster> cluster = ClusterToSimulate(args, plan);
  const Report headline = MakeHeadline(priced, cluster, std::string(kProved));
  const proto::Plan& price = priced.price ? *priced.price : plan;
  ASSIGN_OR_RETURN(const EmitReport emitted, EmitPlan(args, price, FindImbalance(price), cluster));
  RETURN_IF_ERROR(WriteLock(args, priced, headline));
  if (FLAGS_format != "json") {
    return PrintBesideFiles(
        headline.text + "\n" + PlanSummary(plan) + PrecisionText(plan) + schedule.text, emitted);
  }
  nlohmann::ordered_json json = PlanJson(plan, std::string(kProved));
  json["headline"] = headline.json;
  if (!FLAGS_emit_schedule.empty()) json["emit_schedule"] = schedule.json;
  if (!FLAGS_emit.empty()) json["emit"] = emitted.report.json;
  return Print("", json, 1);
}

}  // namespace

Verb CompileVerb() {
  return {verbs::kCompile, "lower a graph to a plan, prove it and write it",
          "oneflow compile --graph=gpt.textproto --mesh=pipe=2,data=2,tensor=2 --batch=16 "
          "--micro_batches=4 --schedule=1f1b --out=gpt.plan\n"
          "oneflow compile --graph=gpt.textproto --mesh=data=8 --batch=64 --precision=bf16 "
          "--device=cuda --cluster=h100 --memory=80GB --out=gpu.plan\n"
          "oneflow compile --graph=gpt.textproto --cluster=h100 --device=cuda --lock=plan.lock\n",
          CompileGraph};
}

}  // namespace oneflow
