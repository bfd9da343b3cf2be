// oneflow simulate: what a plan would do on a cluster, without running it.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/exec/trace_facts.h"
#include "actor_runtime/exec/trace_perfetto.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/summary.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

// The same bounds as of a cluster file.
absl::Status SetSpread(const std::string& text, proto::Cluster* cluster) {
  const std::string flag = "--spread=" + text;
  const std::vector<std::string> words = absl::StrSplit(text, ':');
  double slow_share = 0, slower = cluster->spread().slower();
  if (words.size() > 2 || !absl::SimpleAtod(words[0], &slow_share) ||
      (words.size() == 2 && !absl::SimpleAtod(words[1], &slower))) {
    return InputError(flag, "is no number", "write a share of nodes, or two: --spread=0.005:0.1");
  }
  if (!(slow_share >= 0 && slow_share <= 0.9 && slower >= 0 && slower <= 0.9)) {
    return InputError(flag, "is out of range",
                      "use the share of nodes that are slow, 0 to 0.9, and how much longer they "
                      "compute, 0 to 0.9; 0: all are alike");
  }
  if (slow_share > 0 && slower == 0) {
    return InputError(flag, "acts on nothing: the cluster does not say how slow slow nodes are",
                      absl::StrCat("write --spread=", slow_share, ":0.1, or --spread=0"));
  }
  cluster->mutable_spread()->set_slow_share(slow_share);
  cluster->mutable_spread()->set_slower(slower);
  return absl::OkStatus();
}

absl::Status SimulatePlan(const Arguments& args) {
  RETURN_IF_ERROR(CheckFlagsCompile(args));
  ASSIGN_OR_RETURN(const proto::Run asked, RunFromFlags(args));
  ASSIGN_OR_RETURN(const PricedPlan priced, PricedPlanFromFlags(args));
  const proto::Plan& plan = priced.price ? *priced.price : priced.plan;
  ASSIGN_OR_RETURN(proto::Cluster cluster, ClusterToSimulate(args, plan));
  if (args.Given("spread")) RETURN_IF_ERROR(SetSpread(FLAGS_spread, &cluster));
  // A trace has every firing.
  const int64_t skip_after = !asked.has_trace() ? kSkipAfter : SimulateOptions::kNeverSkip;
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateOn(cluster, plan, FLAGS_program, StepsToSimulate(asked), skip_after));
  if (asked.has_trace()) {
    const proto::ProcessTrace trace = SimulatedTrace(plan, run);
    RETURN_IF_ERROR(
        Annotate(WriteFile(asked.trace(), TraceFileBytes(asked.trace(), {&trace, 1},
                                                         /*processes=*/1, MakeTraceFacts(plan))),
                 "--trace"));
  }
  SimulationSummary summary = Summarize(plan, cluster.name(), run);
  summary.band = FindPlanBand(cluster, plan, FLAGS_program);
  ASSIGN_OR_RETURN(summary.rates,
                   FindModelRates(plan, FLAGS_program, cluster, summary.step_seconds));
  if (priced.price) summary.imbalance = priced.imbalance;
  summary.sharing = FindCoreSharing(cluster, plan);
  ASSIGN_OR_RETURN(const int processes, ProcessesOn(cluster, plan));
  if (processes > 1) {
    ASSIGN_OR_RETURN(summary.traffic, FindProcessTraffic(plan, FLAGS_program, processes));
  }
  return Print(FLAGS_format == "json" ? SummaryJson(summary) : SummaryText(summary));
}

}  // namespace

Verb SimulateVerb() {
  return {verbs::kSimulate, "predict the step time of a plan on a cluster, without running it",
          "oneflow simulate --plan=gpt.plan --cluster=a100\n"
          "oneflow simulate --plan=gpt.plan --cluster=a100 --steps=3 --trace=simulated.pftrace\n"
          "oneflow simulate --plan=gpt.plan --processes=2\n"
          "oneflow simulate --graph=gpt.textproto --mesh=pipe=2 --batch=16 --micro_batches=4 "
          "--format=json\n",
          SimulatePlan};
}

}  // namespace oneflow
