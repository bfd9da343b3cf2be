// oneflow train: trains a plan, or a graph that it compiles first, in this process or in many.
// First of the walk of README.md. Next: oneflow_core/model/gpt.h, the model that a graph describes.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/numbers.h"
#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/device/cores.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/job/job_keys.h"
#include "actor_runtime/trainer/folder_lock.h"
#include "actor_runtime/trainer/interrupt.h"
#include "actor_runtime/trainer/job_watch.h"
#include "actor_runtime/trainer/metrics_log.h"
#include "actor_runtime/trainer/resume.h"
#include "actor_runtime/trainer/trace_file.h"
#include "actor_runtime/trainer/train_loop.h"
#include "actor_runtime/trainer/watchdog.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "tools/measure/kernel_time.h"
#include "tools/oneflow/backend_flags.h"
#include "tools/oneflow/flags.h"
#include "tools/oneflow/join.h"
#include "tools/oneflow/load.h"
#include "tools/oneflow/precision.h"
#include "tools/oneflow/prepare_training.h"
#include "tools/oneflow/promise_run.h"
#include "tools/oneflow/run_facts.h"
#include "tools/oneflow/train_flags.h"
#include "tools/oneflow/training_data.h"
#include "tools/oneflow/verb.h"

namespace oneflow {
namespace {

// The folder of checkpoints, from now on this run's alone; none if there is none. The first process
// takes it for all.
absl::StatusOr<std::optional<FolderLock>> TakeFolder(Resume resume, bool first, int64_t attempt) {
  if (FLAGS_checkpoint_dir.empty() || !first) return std::nullopt;
  // A job's own attempts differ in their numbers, and an older one cannot commit
  // (checkpoint.h). Its process may hang on a host that was lost, and hold the lock.
  if (!FLAGS_job_dir.empty() && attempt > 0) return std::nullopt;
  // A folder to resume from is there already: a mistyped one is not made.
  if (resume == Resume::kAlways) {
    RETURN_IF_ERROR(LatestCheckpoint(FLAGS_checkpoint_dir).status());
  }
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(FLAGS_checkpoint_dir));
  return lock;
}

// Ends the run on a signal: after complete steps, with a checkpoint, or at once without a folder
// for it.
void End(Runtime& runtime, Processes* processes, bool* printed) {
  if (processes == nullptr && FLAGS_checkpoint_dir.empty()) return runtime.Cancel();
  if (*printed) return;
  *printed = true;
  if (processes != nullptr) processes->AskStop();
  if (FLAGS_checkpoint_dir.empty()) return;
  std::fputs(
      "oneflow: interrupted: a checkpoint is written when the step that has begun is done; a "
      "second signal ends at once\n",
      stderr);
}

// Sends the observations of this process to process 0.
WatchdogOptions WatchFor(Processes* processes, JobWatch* watch, bool on_gpus) {
  const auto note = [processes, watch](const char* name, const auto& message) {
    if (processes == nullptr) return watch->Note(0, name, message.SerializeAsString());
    processes->member().Note(name, message.SerializeAsString());
  };
  WatchdogOptions options{.stall_seconds = FLAGS_stall_seconds, .ends = on_gpus};
  options.host = HostName();
  // Process 0 hears of some hundred processes a second, at most.
  if (processes != nullptr) options.waits_seconds = std::max(1.0, processes->count() / 100.0);
  options.on_waits = [note](const proto::ProcessWaits& w) { note(JobWatch::kWaits, w); };
  options.on_stall = [note](const proto::ProcessStall& s) { note(JobWatch::kStall, s); };
  if (processes != nullptr && !processes->IsFirst()) return options;
  options.on_look = [processes, watch] {
    // Whoever was given up writes nothing.
    if (processes == nullptr || processes->member().MayWrite()) watch->Look();
  };
  return options;
}

// The loop, and the trace of what ran even if it failed.
absl::Status TrainAndTrace(const proto::Plan& plan, Runtime& runtime, const TokenSource& train,
                           const TokenSource* eval, MetricsLog* log, bool on_gpus,
                           Processes* processes, JobWatch* watch, const Promise* promise,
                           TrainLoopOptions options) {
  // Checks now, not after hours, that the trace can be written. A run that is killed leaves none.
  const bool writes = !FLAGS_trace.empty() && (processes == nullptr || processes->IsFirst());
  if (writes) RETURN_IF_ERROR(Annotate(MakeWayForFile(FLAGS_trace), "--trace"));
  absl::Status trained;
  {
    bool printed = false;
    const Interrupt interrupt([&] { End(runtime, processes, &printed); });
    options.stop = &interrupt.signalled();
    const Watchdog watchdog(runtime, WatchFor(processes, watch, on_gpus));
    trained = TrainLoop(plan, runtime, train, eval, log, options);
  }
  if (FLAGS_trace.empty()) return trained;
  // An interruption that all have agreed upon is a good end.
  const bool together = trained.ok() || absl::IsCancelled(trained);
  const SimulatedRun* predicted = FLAGS_predict && promise != nullptr ? &promise->run : nullptr;
  const absl::Status traced = WriteTrace(FLAGS_trace, runtime, processes, together, predicted);
  return trained.ok() ? traced : trained;
}

// Kernel threads that would run at once.
int KernelThreads(const Runtime& runtime) { return runtime.ranks() * runtime.kernel_threads(); }

void WarnOfCores(const Runtime& runtime) {
  const int cores = Cores();
  if (KernelThreads(runtime) <= cores) return;
  const std::string hint = runtime.ranks() > cores
                               ? "a mesh of " + std::to_string(cores) + " or fewer devices"
                               : "--threads=" + std::to_string(cores);
  std::fprintf(stderr,
               "oneflow: warning: %d devices of %d kernel threads each take turns on the %d cores "
               "that this process may use; it would take no longer with %s\n",
               runtime.ranks(), runtime.kernel_threads(), cores, hint.c_str());
}

// The rate of matrix products on the cores that the run may use, for the types that it multiplies.
absl::StatusOr<double> FlopsHere(const Runtime& runtime) {
  const int threads = std::min(KernelThreads(runtime), Cores());
  ASSIGN_OR_RETURN(const double rate, MeasureMatrixRate(threads));
  if (runtime.plan().train().precision() != proto::BF16) return rate;
  ASSIGN_OR_RETURN(const double bf16, MeasureMatrixRate(threads, DType::kBF16));
  return std::max(rate, bf16);
}

double NumberIn(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? number : 0;
}

// The same of all processes: measured at one time, for they may share cores.
absl::StatusOr<double> MachineFlops(const Runtime& runtime, Processes* processes) {
  ASSIGN_OR_RETURN(const double rate, FlopsHere(runtime));
  if (processes == nullptr) return rate;
  ASSIGN_OR_RETURN(const std::string all, processes->Round("matrix rate", ExactDouble(rate),
                                                           [](std::span<const std::string> rates) {
                                                             double sum = 0;
                                                             for (const std::string& text : rates)
                                                               sum += NumberIn(text);
                                                             return ExactDouble(sum);
                                                           }));
  return NumberIn(all);
}

// The status of a run that was interrupted: it names the newest checkpoint.
absl::Status Interrupted() {
  const absl::StatusOr<std::string> latest = LatestCheckpoint(FLAGS_checkpoint_dir);
  return absl::CancelledError(
      latest.ok() ? "interrupted; the latest checkpoint is " + *latest + "; go on with --resume"
      : FLAGS_checkpoint_dir.empty()
          ? "interrupted; no checkpoint was written: give --checkpoint_dir=DIR"
          : "interrupted before the first step was done; no checkpoint was written");
}

// If updates do not wait for a norm, nothing can skip a step; if weights lag, updates cannot wait
// for it.
void WarnOfSteps(int64_t steps, const proto::Plan& plan) {
  const bool skipped = !plan.train().no_global_norm();
  const char* what = skipped ? "were skipped, for their loss or gradient was not finite"
                             : "had a loss or gradient that was not finite and was applied";
  const char* hint = skipped ? plan.train().optimizer().clip() > 0 ? " or --clip" : " or --clip=1"
                     : StepsARound(plan) > 1
                         ? ""
                         : ", or compile with --global_norm, which skips such steps";
  std::fprintf(stderr, "oneflow: warning: %lld steps %s; try a lower --learning_rate%s\n",
               static_cast<long long>(steps), what, hint);
}

// A run whose last loss is not finite has failed, whatever it wrote.
absl::Status CheckLoss(std::optional<double> loss) {
  if (!loss || std::isfinite(*loss)) return absl::OkStatus();
  return absl::AbortedError(
      "the loss of the last step is not finite: what was trained is of no use; go back to an "
      "earlier checkpoint, or begin again, with a lower --learning_rate");
}

// The runtime that ends when the processes' attempt does.
class Attached {
 public:
  Attached(Processes* processes, Runtime* runtime) : processes_(processes) {
    if (processes_ != nullptr) processes_->Attach(runtime);
  }
  ~Attached() {
    if (processes_ != nullptr) processes_->Attach(nullptr);
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Processes* const processes_;
};

// Process 0 looks, for all.
absl::StatusOr<bool> GoesOnTogether(Resume resume, Processes* processes) {
  if (processes == nullptr) return GoesOn(resume, FLAGS_checkpoint_dir);
  ASSIGN_OR_RETURN(const std::string goes_on,
                   processes->Round("resume", "", [&](auto) -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(const bool does, GoesOn(resume, FLAGS_checkpoint_dir));
                     return does ? "yes" : "no";
                   }));
  return goes_on == "yes";
}

// The plan, data and options of a training.
struct Training {
  const Arguments& args;
  const proto::Plan& plan;
  const TrainingData& data;
  TrainLoopOptions loop;
  RuntimeOptions runtime;
  MetricsOptions log;
  Resume resume = Resume::kNever;
  bool text = true;  // for people
  JobWatch* watch = nullptr;
  JobReport* report = nullptr;
};

// Said at the end, to whoever reads.
void ReportTook(const Runtime& runtime, const Promise& promise, const StepTimes& times, bool text,
                JobReport* report) {
  const Took took = TookOfRun(runtime, times);
  if (text) std::fputs(TookText(promise, took).c_str(), stdout);
  report->AddToOutcome(TookJson(promise, took));
}

// `processes`: that train together; null: this one alone.
absl::Status TrainHere(Training training, Processes* processes) {
  training.loop.processes = processes;
  const bool first = processes == nullptr || processes->IsFirst();
  const bool text = first && training.text;
  ASSIGN_OR_RETURN(const std::optional<GpuBackend> gpus,
                   BackendFromFlags(training.args, training.plan, processes));
  if (gpus) training.runtime.backend = &gpus->devices;
  if (processes != nullptr) processes->Configure(&training.runtime, FLAGS_threads);
  if (first) WatchFirstSteps(training.plan, &training.runtime);
  KernelSetups setups;
  if (first) training.runtime.on_kernel = [&](const KernelSetup& s) { setups.Add(s); };
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(training.plan, training.runtime));
  const Attached attached(processes, runtime.get());
  ASSIGN_OR_RETURN(const std::optional<FolderLock> lock,
                   TakeFolder(training.resume, first, training.loop.writer.attempt));
  ASSIGN_OR_RETURN(training.loop.resume, GoesOnTogether(training.resume, processes));
  if (!gpus) {
    if (first) WarnOfCores(*runtime);
    ASSIGN_OR_RETURN(training.log.machine_flops, MachineFlops(*runtime, processes));
  } else {
    training.log.ranks = runtime->ranks();
    training.log.worked = [&runtime = *runtime](std::chrono::steady_clock::time_point now,
                                                std::span<int64_t> nanoseconds) {
      runtime.WorkedUntil(now, nanoseconds);
    };
  }
  StepTimes times;
  std::optional<Promise> promise;
  std::optional<MetricsLog> log;
  if (first) {
    ASSIGN_OR_RETURN(promise, PromiseOfRun(training.args, *runtime, setups,
                                           processes == nullptr ? 1 : processes->count(),
                                           training.log.machine_flops));
    if (promise) training.log.promised_step_seconds = promise->step_seconds;
    training.log.on_step = [&times, next = std::move(training.log.on_step)](
                               int64_t steps, double loss, double seconds) {
      times.Add(seconds, ProcessSeconds());
      if (next) next(steps, loss, seconds);
    };
    log.emplace(training.log);
  }
  if (gpus && text) {
    ASSIGN_OR_RETURN(const std::string memory, gpus->memory.Text(gpus->devices));
    std::fputs(memory.c_str(), stdout);
  }
  if (!gpus && text) std::fputs(PrecisionText(training.plan, training.runtime.isa).c_str(), stdout);
  if (promise && text) std::fputs(PromiseText(*promise).c_str(), stdout);
  const bool mixed = !training.data.train.parts().empty();
  if (mixed && text) std::fputs(MixtureText(training.data.train).c_str(), stdout);
  const auto train = training.data.train.Source(FLAGS_seed);
  std::unique_ptr<TokenSource> eval;
  if (training.data.validation.size() > 0) eval = training.data.validation.Source(FLAGS_seed);
  const absl::Status trained = TrainAndTrace(
      training.plan, *runtime, *train, eval.get(), log ? &*log : nullptr, gpus.has_value(),
      processes, training.watch, promise ? &*promise : nullptr, training.loop);
  if (log && log->nonfinite_steps() > 0) WarnOfSteps(log->nonfinite_steps(), training.plan);
  if (absl::IsCancelled(trained)) return Interrupted();
  RETURN_IF_ERROR(trained);
  if (promise) ReportTook(*runtime, *promise, times, text, training.report);
  if (mixed && text) {
    std::fputs(
        SharesText(training.data.train, FLAGS_seed, FLAGS_steps, training.plan.train().batch())
            .c_str(),
        stdout);
  }
  if (log) RETURN_IF_ERROR(CheckLoss(log->last_loss()));
  if (text && !FLAGS_checkpoint_dir.empty()) {
    std::printf("checkpoints: %s\n", FLAGS_checkpoint_dir.c_str());
  }
  if (text && processes != nullptr) {
    const TransportMemory memory = processes->transport_memory();
    std::printf(
        "transport: %.1f MB of memory in process 0, and %.1f MB that it shares with others\n",
        static_cast<double>(memory.private_bytes) * 1e-6,
        static_cast<double>(memory.shared_bytes) * 1e-6);
  }
  FlushProgress();
  return absl::OkStatus();
}

// The attempt of this process, for any training.
struct Attempt {
  const Arguments& args;
  const JobPlacement& placement;
  Resume resume;
  JobReport& report;
  JobWatch& watch;
};

// `processes`: as of TrainHere.
absl::Status TrainPrepared(const Attempt& attempt, const PreparedTraining& prepared,
                           Processes* processes) {
  Training training{.args = attempt.args,
                    .plan = prepared.plan,
                    .data = prepared.data,
                    .loop = prepared.loop,
                    .log = prepared.log,
                    .resume = attempt.resume,
                    .text = FLAGS_format == "text",
                    .watch = &attempt.watch,
                    .report = &attempt.report};
  ASSIGN_OR_RETURN(training.runtime.threads, ThreadsFromFlags());
  ASSIGN_OR_RETURN(training.runtime.isa, IsaFromFlags());
  ASSIGN_OR_RETURN(training.runtime.host_link, HostLinkFromFlags());
  training.runtime.trace = !FLAGS_trace.empty();
  training.runtime.synchronous = FLAGS_synchronous;
  training.log.on_step = [&attempt, tokens = training.log.tokens_a_step](
                             int64_t steps_done, double loss, double seconds) {
    attempt.report.Trained(steps_done, loss, tokens / seconds, FLAGS_checkpoint_dir);
  };
  if (processes != nullptr) {
    const auto may_write = [=] { return processes->AwaitMayWrite(); };
    training.log.may_write = may_write;
    training.loop.writer = {.attempt = attempt.placement.attempt,
                            .process = attempt.placement.process,
                            .ranks = processes->ranks(),
                            .may_write = may_write};
  }
  return TrainHere(std::move(training), processes);
}

// `prepared`: nothing where the plan is elsewhere.
absl::Status TrainTogether(const Attempt& attempt, std::optional<PreparedTraining> prepared,
                           Together& together) {
  Processes& processes = *together.processes;
  ASSIGN_OR_RETURN(std::optional<proto::Plan> received,
                   SharePlan(processes, prepared ? &prepared->plan : nullptr));
  if (received) {
    const auto given = [&](const std::string&) -> absl::StatusOr<proto::Plan> {
      return *std::move(received);
    };
    ASSIGN_OR_RETURN(proto::Plan plan, PlanFromFlags(attempt.args, given));
    ASSIGN_OR_RETURN(prepared, PrepareTraining(attempt.args, std::move(plan)));
  }
  const LastResort last_resort(together, attempt.report);
  return TrainPrepared(attempt, *prepared, &processes);
}

// `joins`: whether it has come so far that it joins the others, or begins alone. From then on the
// end is reported.
absl::Status TrainAt(const JobPlacement& placement, const Arguments& args, JobReport& report,
                     bool* joins) {
  RETURN_IF_ERROR(CheckTrainNumbers(args, !FLAGS_checkpoint_dir.empty()));
  RETURN_IF_ERROR(CheckPredict());
  ASSIGN_OR_RETURN(const Resume resume, ResumeFromFlags());
  if (resume == Resume::kAlways && !FLAGS_init_from.empty()) {
    return InputError("--init_from",
                      "cannot be given together with --resume: weights come from one",
                      "leave one of the two out, or write --resume=auto");
  }
  RETURN_IF_ERROR(CheckJobDir());
  RETURN_IF_ERROR(FormatFromFlags({"text", "json"}).status());
  RETURN_IF_ERROR(ThreadsFromFlags().status());
  if (placement.processes > 1 && FLAGS_logical_devices) {
    return InputError("--logical_devices", "shares GPUs among the ranks of one process alone",
                      "leave it out, or start one process");
  }
  for (const char* flag : {"interface", "trust_network"}) {
    if (placement.processes > 1 || !args.Given(flag)) continue;
    std::fprintf(stderr, "oneflow: warning: --%s acts on nothing: one process has no others\n",
                 flag);
  }
  std::optional<PreparedTraining> prepared;
  if (!PlanIsElsewhere(placement)) {
    ASSIGN_OR_RETURN(proto::Plan plan, PlanFromFlags(args));
    RETURN_IF_ERROR(CheckHostLink(plan));
    ASSIGN_OR_RETURN(prepared, PrepareTraining(args, std::move(plan)));
  }
  int ranks = 0;
  if (prepared) {
    ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(prepared->plan));
    ranks = mesh.ranks();
  }
  JobWatch watch(placement.processes, ranks, &report);
  const Attempt attempt{args, placement, resume, report, watch};
  if (placement.processes == 1) {
    *joins = true;
    report.Begin();
    return LeaveTogether({}, TrainPrepared(attempt, *prepared, nullptr), report);
  }
  ASSIGN_OR_RETURN(const Isa isa, IsaFromFlags());
  ASSIGN_OR_RETURN(std::vector<JoinFact> facts,
                   FactsOfRun(args, FlagsOfVerb(verbs::kTrain),
                              prepared ? prepared->plan.fingerprint() : "", isa));
  // The same text and the same tokens: an empty value stands for any.
  facts.push_back({"tokenizer of --data", prepared ? prepared->data.tokenizer.Text() : ""});
  *joins = true;
  ASSIGN_OR_RETURN(Together together, JoinFromFlags(placement, prepared ? &prepared->plan : nullptr,
                                                    std::move(facts), report, &watch));
  const absl::Status trained = TrainTogether(attempt, std::move(prepared), together);
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
  ASSIGN_OR_RETURN(const JobPlacement placement, PlacementFromFlags());
  JobReport report(FLAGS_job_dir, placement.attempt);
  bool joins = false;
  const absl::Status status = TrainAt(placement, args, report, &joins);
  return status.ok() || joins ? status : CannotJoin(placement, status, report);
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
