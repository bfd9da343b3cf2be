#include "tools/oneflow/train/train_run.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/cores.h"
#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/simulate/model_rates.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/interrupt.h"
#include "tools/oneflow/cli/precision.h"
#include "tools/oneflow/serve/live_run.h"
#include "tools/oneflow/train/machine_flops.h"
#include "tools/oneflow/train/mixture_text.h"
#include "tools/oneflow/train/promise_run.h"
#include "tools/oneflow/train/records_text.h"
#include "tools/oneflow/train/training_data.h"
#include "training/trainer/trainer.h"

namespace oneflow {
namespace {

void WarnOfCores(const Runtime& runtime) {
  const int cores = Cores();
  if (KernelThreads(runtime) <= cores) return;
  const std::string hint = runtime.ranks() > cores
                               ? absl::StrCat("a mesh of ", cores, " or fewer devices")
                               : absl::StrCat("--threads=", cores);
  PrintNotice(absl::StrCat("warning: ", runtime.ranks(), " devices of ", runtime.kernel_threads(),
                           " kernel threads each take turns on the ", cores,
                           " cores that this process may use; it would take no longer with ",
                           hint));
}

// To stdout, where people read it.
void PrintLines(bool text, const std::string& lines) {
  if (text) std::fputs(lines.c_str(), stdout);
}

// Ends the run on a signal, and says once what follows.
void EndOnSignal(Trainer& trainer, ProgressPrinter& printer, bool writes, bool* is_known) {
  trainer.AskStop();
  if (!writes || std::exchange(*is_known, true)) return;
  printer.Notify(
      "interrupted: a checkpoint is written when the step that has begun is done; a second signal "
      "ends at once");
}

}  // namespace

absl::Status RunTraining(const Arguments& args, const PreparedTraining& prepared,
                         const JobPlacement& placement, ProcessGroup& group, JobReport& report,
                         JobWatch& watch, ProgressPrinter& printer,
                         std::unique_ptr<HttpServer> server) {
  const proto::Plan& plan = prepared.plan;
  const TrainingData& data = prepared.data;
  const bool first = group.IsFirst(), text = first && !printer.json();

  const proto::Run& run = prepared.run;
  TrainerOptions options{.run = run, .attempt = placement.attempt};
  // A job's own attempts differ in their numbers, and an older one cannot commit (checkpoint.h).
  options.locks_folder = run.job_dir().empty() || placement.attempt == 0;
  ASSIGN_OR_RETURN(const std::optional<GpuBackend> gpus, OpenGpus(run, plan, group));
  if (gpus) options.runtime.backend = &gpus->devices;
  KernelSetups setups;
  if (first) {
    WatchFirstSteps(plan, &options);
    options.runtime.on_kernel = [&](const KernelSetup& setup) { setups.Add(setup); };
  }

  StepTimes times;
  std::optional<LiveRun> live;
  TrainerObserver observer;
  observer.notice = [&](const std::string& sentence) { printer.Notify(sentence); };
  observer.on_step = [&](const TrainedStep& step) {
    times.Add(step.seconds, ProcessSeconds());
    report.Trained(step.step + 1, step.loss, step.tokens_per_second, run.checkpoint_dir());
    if (live) live->Add(step);
    printer.Show(step);
  };
  observer.on_evaluated = [&](int64_t steps, const MeanLoss& loss) {
    printer.ShowEvaluation(steps, loss);
  };
  observer.on_look = [&] { watch.Look(); };
  observer.wants_report = TakeReportRequest;
  std::optional<Interrupt> interrupt;
  observer.on_trained = [&] { interrupt.reset(); };

  const int64_t batch = SamplesOfStep(plan);
  const auto train = TrainSource(run, data, batch);
  const proto::Program* eval_program = FindProgram(plan, "eval");
  const auto eval = ValidationSource(
      run, data, eval_program == nullptr ? batch : eval_program->micro_batch_size());
  ASSIGN_OR_RETURN(const auto trainer,
                   Trainer::Create(plan, DataOfTrainer(run, data, train.get(), eval.get()), options,
                                   &group, observer));

  RunPrediction prediction;
  if (!gpus) {
    if (first) WarnOfCores(trainer->runtime());
    ASSIGN_OR_RETURN(prediction.machine_flops, MachineFlops(trainer->runtime(), group));
  }
  std::optional<Promise> promise;
  if (first) {
    ASSIGN_OR_RETURN(promise, PromiseOfRun(args, trainer->runtime(), setups, group.count(),
                                           prediction.machine_flops, run.predict()));
  }
  if (promise) {
    prediction.step_seconds = promise->step_seconds;
    if (run.predict()) prediction.run = &promise->run;
  }
  if (gpus && text) {
    ASSIGN_OR_RETURN(const std::string memory, gpus->memory.Text(gpus->devices));
    PrintLines(text, memory);
  }
  if (!gpus) PrintLines(text, PrecisionText(plan, trainer->isa()));
  if (promise) PrintLines(text, PromiseText(*promise));
  if (!gpus) {
    ASSIGN_OR_RETURN(const ModelRates rates, FindModelRates(plan, "train", {}, 0));
    const std::string counts = WhatCounts(rates);
    if (!counts.empty()) PrintLines(text, "MFU counts " + counts + "\n");
  }
  if (first) {
    for (const std::string& warning : data.warnings) printer.Notify(warning);
  }
  ASSIGN_OR_RETURN(const ModelFacts model, FactsOfModel(plan));
  PrintLines(text,
             RecordsText(data.train_samples, model.sequence, data.marks_documents, run, batch));
  if (first && printer.json() && data.train_samples.counts().records > 0) {
    std::puts(JsonText(nlohmann::ordered_json{
                           {"data", RecordsJson(data.train_samples, model.sequence, run)}})
                  .c_str());
  }
  const bool mixed = !data.train.parts().empty();
  if (mixed) PrintLines(text, MixtureText(data.train));

  const std::unique_ptr<HttpServer> serving = std::move(server);  // ends before `live`
  if (serving != nullptr) {
    PlanOrigin origin = FindPlanOrigin(args, plan).value_or(PlanOrigin());
    live.emplace(plan, promise, report, LivePage(plan, promise, std::move(origin)));
    RETURN_IF_ERROR(serving->Start([&](const std::string& path) { return live->Answer(path); }));
    printer.Notify("the run is shown at " + serving->Url());
  }

  bool is_known = false;
  interrupt.emplace(
      [&] { EndOnSignal(*trainer, printer, !run.checkpoint_dir().empty(), &is_known); });
  const absl::Status trained = trainer->Run(prediction);
  interrupt.reset();
  printer.EndLine();
  RETURN_IF_ERROR(trained);
  if (promise) {
    const Took took = TookOfRun(trainer->runtime(), times);
    PrintLines(text, TookText(*promise, took));
    report.AddToOutcome(TookJson(*promise, took));
  }
  if (mixed) {
    PrintLines(text, SharesText(data.train, run.seed(), run.steps(), batch));
  }
  if (!run.checkpoint_dir().empty()) {
    PrintLines(text, absl::StrCat("checkpoints: ", run.checkpoint_dir(), "\n"));
  }
  if (group.count() > 1) PrintLines(text, group.MemoryOfLinks() + "\n");
  FlushProgress();
  return absl::OkStatus();
}

}  // namespace oneflow
