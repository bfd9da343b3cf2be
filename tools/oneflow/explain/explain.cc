// oneflow explain: what a plan is: text for people, json for programs, html for a picture, memory
// in the classes of published tables.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/boxing_text.h"
#include "oneflow_core/print/plan_json.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/variable_text.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/simulate/process_traffic.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/precision.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/block_class_table.h"
#include "tools/oneflow/explain/headline.h"
#include "tools/oneflow/explain/model_memory.h"
#include "tools/oneflow/explain/plan_origin.h"
#include "tools/oneflow/explain/simulated_page.h"

namespace oneflow {
namespace {

// The bytes that a step of --program sends between --processes; empty if none are given.
absl::StatusOr<std::optional<ProcessTraffic>> ProcessTrafficFromFlags(const Arguments& args,
                                                                      const proto::Plan& plan) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  if (!run.has_processes()) return std::nullopt;
  RETURN_IF_ERROR(Annotate(VerifyPlan(plan), "plan"));
  ASSIGN_OR_RETURN(ProcessTraffic traffic,
                   FindProcessTraffic(plan, FLAGS_program, run.processes()));
  return traffic;
}

// Refuses flags that the format does not use.
absl::Status CheckFlagsOfFormat(const Arguments& args, const std::string& format) {
  if (args.Given("steps") && format != "html") {
    return InputError("--steps", "acts on nothing with --format=" + format,
                      "leave it out, or add --format=html, which simulates steps");
  }
  if (args.Given("full") && format != "text") {
    return InputError("--full", "acts on nothing with --format=" + format,
                      "leave it out; it is for --format=text");
  }
  return absl::OkStatus();
}

absl::Status Explain(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  const std::string& format = FLAGS_format;
  if (args.Given("after")) {
    if (args.Given("plan")) {
      return InputError("--after=" + FLAGS_after, "is of compiling, and --plan is compiled",
                        "write --graph=gpt.textproto and what it is compiled with");
    }
    ASSIGN_OR_RETURN(const std::string text, TextAfterFromFlags(args, FLAGS_after));
    return Print(text);
  }
  RETURN_IF_ERROR(CheckFlagsOfFormat(args, format));
  RETURN_IF_ERROR(CheckFlagsCompile(args));
  // The text shows what is wrong with a plan; the other forms are of plans that are well-formed.
  ASSIGN_OR_RETURN(const PricedPlan priced,
                   PricedPlanFromFlags(args, format == "text" ? &ReadPlanUnchecked : &ReadPlan));
  const proto::Plan& plan = priced.plan;
  // Without a cluster the text says why there is no time; a wrong one is a mistake.
  if (args.Given("cluster") || args.Given("system"))
    RETURN_IF_ERROR(ClusterToSimulate(args, plan).status());
  const std::string only = args.Given("program") ? FLAGS_program : "";
  if (!only.empty()) RETURN_IF_ERROR(FindProgramByFlag(plan, only).status());
  ASSIGN_OR_RETURN(const std::optional<ProcessTraffic> traffic,
                   ProcessTrafficFromFlags(args, plan));
  const std::string proof = format == "json" || format == "text" ? DescribeProof(plan) : "";
  std::string text;
  if (format == "json") {
    nlohmann::ordered_json json = PlanJson(plan, proof);
    json["headline"] = MakeHeadline(priced, ClusterToSimulate(args, plan), proof).json;
    nlohmann::ordered_json classes;
    if (proof == kProved) classes = BlockClassTable(plan, ClusterToSimulate(args, plan)).json;
    if (!classes.is_null()) json["block_classes"] = classes;
    if (traffic) json["process_traffic"] = ProcessTrafficJson(*traffic);
    text = JsonText(json, traffic ? -1 : 1) + "\n";
  } else if (format == "memory") {
    ASSIGN_OR_RETURN(text, ModelMemoryText(plan));
    for (const proto::StageMemory& stage : plan.memory()) {
      const bool host = stage.kind() == proto::HOST;
      if (host && !RestsOnHost(plan)) continue;
      text += absl::StrCat("largest of stage ", stage.stage(), host ? ", host" : "", ": ",
                           LargestRegisters(plan, stage.stage(), stage.kind()), "\n");
    }
  } else if (format == "html") {
    ASSIGN_OR_RETURN(const proto::Cluster cluster, ClusterToSimulate(args, plan));
    ASSIGN_OR_RETURN(PlanOrigin origin, FindPlanOrigin(args, plan));
    ASSIGN_OR_RETURN(text, SimulatedPage(cluster, priced, FLAGS_program, StepsToSimulate(run),
                                         /*live_script=*/"", std::move(origin)));
  } else {
    text = MakeHeadline(priced, ClusterToSimulate(args, plan), proof).text + "\n" +
           (FLAGS_full ? PlanText(plan, only) : PlanSummary(plan) + PrecisionText(plan));
    if (only.empty() || only == "train") {
      if (proof == kProved) text += BlockClassTable(plan, ClusterToSimulate(args, plan)).text;
      text += VariableTable(plan);
    }
    for (const proto::Program& program : plan.program()) {
      if (only.empty() || program.name() == only) text += BoxingTable(plan, program);
    }
    if (traffic) text += absl::StrCat(FLAGS_program, ", ", ProcessTrafficText(*traffic));
  }
  return Print(text);
}

}  // namespace

Verb ExplainVerb() {
  return {verbs::kExplain, "describe a plan: layouts, memory, orders, and why",
          "oneflow explain --plan=gpt.plan\n"
          "oneflow explain --plan=gpt.plan --format=json\n"
          "oneflow explain --plan=gpt.plan --format=memory\n"
          "oneflow explain --plan=gpt.plan --processes=2\n"
          "oneflow explain --graph=gpt.textproto --mesh=data=2 --after=insert_boxing\n"
          "oneflow explain --plan=gpt.plan --format=html --cluster=a100 > plan.html\n",
          Explain};
}

}  // namespace oneflow
