// oneflow train: trains a plan, or a graph that it compiles first, in this process or in many.
// First of the walk of README.md. Next: oneflow_core/model/gpt.h, the model that a graph describes.
#include <malloc.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/interrupt.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/train/check_run.h"
#include "tools/oneflow/train/join.h"
#include "tools/oneflow/train/prepare_training.h"
#include "tools/oneflow/train/run_facts.h"
#include "tools/oneflow/train/train_run.h"
#include "training/job/job_keys.h"
#include "training/trainer/job_report.h"
#include "training/trainer/job_watch.h"

namespace oneflow {
namespace {

// `prepared`: nothing where the plan is elsewhere; it comes from process 0 then.
absl::Status TrainTogether(const JobPlacement& placement, const Arguments& args,
                           const proto::Run& run, std::optional<PreparedTraining> prepared,
                           Together& together, JobReport& report, JobWatch& watch,
                           ProgressPrinter& printer) {
  ASSIGN_OR_RETURN(std::optional<proto::Plan> received,
                   SharePlan(*together.group, prepared ? &prepared->plan : nullptr, FLAGS_plan));
  if (received) {
    const auto given = [&](const std::string&) -> absl::StatusOr<proto::Plan> {
      return *std::move(received);
    };
    ASSIGN_OR_RETURN(proto::Plan plan, PlanFromFlags(args, given));
    ASSIGN_OR_RETURN(prepared, PrepareTraining(run, std::move(plan)));
  }
  std::optional<LastResort> last_resort;
  if (together.group->count() > 1) last_resort.emplace(together, report);
  return RunTraining(args, *prepared, placement, *together.group, report, watch, printer);
}

// `joins`: whether it has come so far that it joins the others, or begins alone. From then on the
// end is reported.
absl::Status TrainAt(const JobPlacement& placement, const Arguments& args, const proto::Run& run,
                     JobReport& report, bool* joins) {
  RETURN_IF_ERROR(CheckRunHere(run, placement.processes));
  ProgressPrinter printer(/*json=*/FLAGS_format == "json");
  std::optional<PreparedTraining> prepared;
  int ranks = 0;
  if (!PlanIsElsewhere(placement, FLAGS_plan)) {
    ASSIGN_OR_RETURN(proto::Plan plan, PlanFromFlags(args));
    RETURN_IF_ERROR(CheckHostLink(run, plan));
    ASSIGN_OR_RETURN(prepared, PrepareTraining(run, std::move(plan)));
    ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(prepared->plan));
    ranks = mesh.ranks();
  }
  JobWatch watch(placement.processes, ranks, &report,
                 [&](const std::string& sentence) { printer.Notify(sentence); });
  std::vector<JoinFact> facts;
  if (placement.processes > 1) {
    ASSIGN_OR_RETURN(facts, FactsOfRun(run, prepared ? prepared->plan.fingerprint() : ""));
    // The same text and the same tokens: an empty value stands for any.
    facts.push_back({"tokenizer of --data", prepared ? prepared->data.tokenizer.Text() : ""});
  }
  *joins = true;
  ASSIGN_OR_RETURN(Together together,
                   JoinOthers(placement, run, prepared ? &prepared->plan : nullptr,
                              std::move(facts), report, &watch));
  const absl::Status trained =
      TrainTogether(placement, args, run, std::move(prepared), together, report, watch, printer);
  printer.EndLine();
  return LeaveTogether(std::move(together), trained, report);
}

absl::Status Train(const Arguments& args) {
  if (!FLAGS_make_job_keys.empty()) return MakeJobKeys(FLAGS_make_job_keys);
  // Large blocks, such as those that measure the machine, go back to the system when they are
  // freed: by default the allocator learns to keep them, beside the plan's memory, for the whole
  // run.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ListenToSigusr1();
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the progress may leave (FlushProgress)
  ASSIGN_OR_RETURN(const proto::Run run, RunToPrepare(args));
  ASSIGN_OR_RETURN(const JobPlacement placement, PlacementFromFlags(run));
  JobReport report(run.job_dir(), placement.attempt);
  bool joins = false;
  const absl::Status status = TrainAt(placement, args, run, report, &joins);
  return status.ok() || joins ? status : CannotJoin(placement, run, status, report);
}

}  // namespace

Verb TrainVerb() {
  return {verbs::kTrain, "train a plan, in one process or in many",
          "oneflow train --plan=gpt.plan --data=text.txt --steps=20 --seed=1 "
          "--metrics=metrics.jsonl --checkpoint_dir=run/ckpt\n"
          "oneflow train --graph=gpt.textproto --mesh=data=2 --batch=16 --data=text.txt "
          "--steps=20\n"
          "oneflow train --plan=gpt.plan --data=text.txt --steps=5 --trace=trace.json --predict\n"
          "oneflow train --plan=gpt.plan --data=text.txt --steps=40 --checkpoint_dir=run/ckpt "
          "--resume=auto --checkpoint_every=10 --keep=2\n",
          Train};
}

}  // namespace oneflow
