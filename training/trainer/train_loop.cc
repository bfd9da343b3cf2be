#include "training/trainer/train_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/train/learning_rate.h"
#include "training/checkpoint/checkpoint.h"
#include "training/job/job.h"
#include "training/trainer/first_weights.h"
#include "training/trainer/old_checkpoints.h"
#include "training/trainer/resume.h"
#include "training/trainer/weight_check.h"

namespace oneflow {
namespace {

// Some bytes are kept of each step of a chunk: memory must not grow with --steps.
constexpr int64_t kMostStepsOfChunk = int64_t{1} << 14;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::Status Stopped() { return absl::CancelledError("training was stopped"); }

// The first multiple of `every` after `step`, or `end` if that comes first.
int64_t NextBoundary(int64_t step, int64_t every, int64_t end) {
  return every > 0 ? std::min(end, (step / every + 1) * every) : end;
}

StepNumbers MakeNumbers(const proto::Optimizer& o, int64_t step, int64_t total) {
  return {LearningRate(o, step, total),
          o.beta1(),
          o.beta2(),
          o.epsilon(),
          o.weight_decay(),
          o.clip(),
          step};
}

// The optimizer of a run: a decay that ends with it has its end.
proto::Optimizer OptimizerOfRun(const proto::Run& run) {
  proto::Optimizer optimizer = run.optimizer();
  const bool decays = optimizer.lr_schedule() != proto::Optimizer::CONSTANT;
  if (decays && optimizer.decay_steps() == 0) optimizer.set_decay_steps(run.steps());
  return optimizer;
}

constexpr char kChosen[] = "chosen ";

std::string Encode(const absl::Status& status) {
  proto::JobError error;
  if (!status.ok()) WriteError(status, &error);
  return error.SerializeAsString();
}

absl::Status Decode(const std::string& bytes) {
  proto::JobError error;
  if (bytes.empty()) return absl::OkStatus();
  if (!error.ParseFromString(bytes)) return absl::InternalError("a verdict that is none");
  return ReadError(error);
}

// Process 0's word to all.
absl::StatusOr<std::string> Say(ProcessGroup& processes, const std::string& what) {
  return processes.Round("checkpoint to verify", "",
                         [&](std::span<const std::string>) { return what; });
}

// An error if one of the processes cannot go on from it.
absl::Status VerifyTogether(ProcessGroup& processes, const absl::Status& here) {
  ASSIGN_OR_RETURN(
      const std::string all,
      processes.Round("verdict", Encode(here), [](std::span<const std::string> verdicts) {
        const auto bad = std::find_if(verdicts.begin(), verdicts.end(),
                                      [](const auto& v) { return !v.empty(); });
        return bad == verdicts.end() ? std::string() : *bad;
      }));
  return Decode(all);
}

// The newest checkpoint of which each process can load its part: process 0 chooses; all verify what
// they would load.
absl::StatusOr<std::string> ChooseTogether(
    const Training& training,
    const std::function<absl::Status(const std::string& folder)>& verify) {
  ProcessGroup& group = training.group;
  if (group.IsFirst()) {
    const auto verify_together = [&](const std::string& it) -> absl::Status {
      RETURN_IF_ERROR(Say(group, it).status());
      return VerifyTogether(group, verify(it));
    };
    ASSIGN_OR_RETURN(
        const std::string folder,
        ChooseCheckpoint(training.run.checkpoint_dir(), verify_together, training.observer.notice));
    RETURN_IF_ERROR(Say(group, kChosen + folder).status());
    return folder;
  }
  for (;;) {
    ASSIGN_OR_RETURN(const std::string said, Say(group, ""));
    if (said.starts_with(kChosen)) return said.substr(sizeof(kChosen) - 1);
    // A refusal has process 0 go on with the next one.
    (void)VerifyTogether(group, verify(said));
  }
}

class Loop {
 public:
  Loop(const Training& training, MetricsLog* log)
      : training_(training),
        plan_(training.plan),
        options_(training.options),
        run_(training.run),
        group_(training.group),
        log_(log),
        writer_{.attempt = options_.attempt,
                .process = group_.index(),
                .ranks = options_.runtime.ranks,
                .may_write = [this] { return group_.AwaitMayWrite(); }} {}

  ~Loop() {
    // Leftovers of one that may not write go with the next attempt.
    if (begun_ && MayWrite().ok()) EndAttempt(run_.checkpoint_dir(), options_.attempt);
  }

  // Finds before the first step, not after the last, whether a checkpoint can be written.
  absl::Status BeginAttempt() {
    if (run_.checkpoint_dir().empty() || !group_.IsFirst()) return absl::OkStatus();
    RETURN_IF_ERROR(MayWrite());
    RETURN_IF_ERROR(oneflow::BeginAttempt(run_.checkpoint_dir(), options_.attempt));
    begun_ = true;
    return absl::OkStatus();
  }

  // Initialises or loads the variables; returns the first step to run.
  absl::StatusOr<int64_t> Start(bool goes_on) {
    if (!goes_on) {
      if (!run_.init_from().empty() || plan_.graph().has_base()) return BeginWithWeights();
      RETURN_IF_ERROR(Run("init", Context("init"), 1));
      return 0;
    }
    const auto verify = [this](const std::string& folder) {
      return VerifyCheckpoint(folder, plan_, writer_.ranks, run_.base());
    };
    ASSIGN_OR_RETURN(const std::string folder, ChooseTogether(training_, verify));
    // The hash of its base has been verified.
    ASSIGN_OR_RETURN(const auto reader,
                     CheckpointReader::Open(folder, {.base = run_.base(), .verifies_base = false}));
    if (reader->seed() != run_.seed()) {
      return InputError("--seed=" + std::to_string(run_.seed()),
                        folder + " was trained with --seed=" + std::to_string(reader->seed()),
                        "resume with the same seed: it orders the data");
    }
    RETURN_IF_ERROR(CheckTokenizer(folder, reader->tokenizer(), "--data", training_.data.tokenizer,
                                   NoticeOfFirst()));
    RETURN_IF_ERROR(CheckMixture(folder, reader->mixture(), training_.data.mixture));
    RETURN_IF_ERROR(CheckRecords(folder, reader->records(), training_.data.records));
    WarnOfChanges(folder, CollectFacts(*reader),
                  CollectFacts(plan_, OptimizerOfRun(run_), training_.data.tokens),
                  NoticeOfFirst());
    TakeModel(*reader);
    RETURN_IF_ERROR(Load(folder, [&](const Piece& piece) { return reader->Load(piece); }));
    training_.Say("the run goes on from " + folder);
    return reader->step();
  }

  // Files of earlier runs make way for this one, which begins at `step`: only now that all
  // processes have their variables, for a run that is refused moves and removes nothing.
  absl::Status MakeRoom(bool goes_on, int64_t step) {
    RETURN_IF_ERROR(group_.Meet("variables"));
    if (!group_.IsFirst()) return absl::OkStatus();
    RETURN_IF_ERROR(log_->Open(step));
    if (!run_.trace().empty()) {
      RETURN_IF_ERROR(Annotate(MakeWayForFile(run_.trace()), "--trace"));
    }
    const std::string& dir = run_.checkpoint_dir();
    if (dir.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(MayWrite());
    ASSIGN_OR_RETURN(const std::string aside,
                     goes_on ? SetLaterAside(dir, step) : SetCheckpointsAside(dir));
    if (!aside.empty()) {
      training_.Say(
          absl::StrCat(goes_on ? "checkpoints of later steps" : "the checkpoints of an earlier run",
                       " are moved to ", aside));
    }
    return absl::OkStatus();
  }

  // Returns the steps it has done: fewer where it was stopped.
  absl::StatusOr<int64_t> Train(int64_t first, int64_t steps, const TokenSource& tokens) {
    RunContext context = Context("train");
    context.first_step = first;
    context.tokens = &tokens;
    context.optimizer = [this](int64_t step) {
      return MakeNumbers(run_.optimizer(), step, run_.steps());
    };
    context.report = [this](int64_t step, std::span<const double> values) {
      log_->Record(step, values);
    };
    if (log_ != nullptr) {
      std::vector<double> rates;
      for (int64_t s = first; s < first + steps; ++s) {
        rates.push_back(LearningRate(run_.optimizer(), s, run_.steps()));
      }
      log_->StartChunk(first, steps, std::move(rates));
    }
    const int64_t round = StepsARound(plan_);
    RETURN_IF_ERROR(Run("train", context, steps / round, round));
    return training_.runtime.steps_done() * StepsARound(plan_);
  }

  // The loss over --eval_batches batches, the same ones every time.
  absl::StatusOr<MeanLoss> Evaluate(const TokenSource& tokens) {
    RunContext context = Context("eval");
    context.tokens = &tokens;
    MeanLoss mean;
    context.report = [&](int64_t, std::span<const double> values) { mean.Add(values); };
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(Run("eval", context, run_.eval_batches(), 1));
    paused_seconds_[kValidation] = SecondsSince(start);
    if (group_.stopped()) return Stopped();  // perhaps before the last batch
    if (!mean.value() && log_ != nullptr && !std::exchange(warned_of_validation_, true)) {
      training_.Say("warning: no label of the validation counts, so it has no loss: " +
                    WhyNoLabels(training_.data.validation_name, training_.data.end_of_text));
    }
    return mean;
  }

  // The seconds that the last one took.
  double paused_seconds(Pause pause) const { return paused_seconds_[pause]; }

  absl::Status Save(int64_t step) {
    const Clock::time_point start = Clock::now();
    CheckpointInfo info;
    info.step = step;
    info.seed = run_.seed();
    info.tokens = training_.data.tokens;
    info.tokenizer = training_.data.tokenizer;
    info.tokenizer_files = training_.data.tokenizer_files;
    info.mixture = training_.data.mixture;
    info.records = training_.data.records;
    info.optimizer = OptimizerOfRun(run_);
    info.notes = notes_;
    info.model_files = model_files_;
    HandTokenizerOn(&info);
    const std::string& dir = run_.checkpoint_dir();
    ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(dir, plan_, info, writer_));
    RunContext context = Context("save");
    context.save = [&](const Piece& piece) { return writer->Write(piece); };
    RETURN_IF_ERROR(Run("save", context, 1));
    ASSIGN_OR_RETURN(const std::string part, writer->Finish());
    const auto commit = [&](std::span<const std::string> parts) {
      return CommitParts(dir, plan_, info, writer_, parts);
    };
    RETURN_IF_ERROR(group_.Round("checkpoint", part, commit).status());
    paused_seconds_[kCheckpoint] = SecondsSince(start);
    if (run_.keep() == 0 || !group_.IsFirst()) return absl::OkStatus();
    RETURN_IF_ERROR(MayWrite());
    // The new one is on the disk. One too many costs no run.
    const absl::Status kept = KeepNewest(dir, run_.keep());
    if (!kept.ok()) training_.Say("warning: " + std::string(kept.message()));
    return absl::OkStatus();
  }

 private:
  // Loads the weights of --init_from, and those of the graph's base; the optimizer's states begin
  // at zero, as in program init.
  absl::StatusOr<int64_t> BeginWithWeights() {
    ASSIGN_OR_RETURN(const FirstWeights weights,
                     FirstWeights::Open(plan_, run_, /*verifies=*/group_.IsFirst()));
    const WeightSource& model = weights.model();
    const std::string& folder = model.folder();
    RETURN_IF_ERROR(CheckTokenizer(folder, model.tokenizer(), "--data", training_.data.tokenizer,
                                   NoticeOfFirst()));
    if (weights.all_from_one()) WarnOfGraph(folder, model.graph(), plan_, NoticeOfFirst());
    TakeModel(model);
    RETURN_IF_ERROR(Load(folder, [&](const Piece& piece) { return weights.Load(piece); }));
    training_.Say(weights.Describe());
    return 0;
  }

  // Takes from the folder that the run goes on from, or begins with, what the run's own checkpoints
  // keep of it.
  template <typename Source>
  void TakeModel(const Source& source) {
    notes_ = source.notes();
    model_files_ = source.model_files();
    tokenizer_files_ = source.tokenizer_files();
  }

  // Each process warns of what it has loaded.
  absl::Status Load(const std::string& folder, std::function<absl::Status(const Piece&)> load) {
    WeightCheck check;
    RunContext context = Context("load");
    context.load = [&](const Piece& piece) -> absl::Status {
      RETURN_IF_ERROR(load(piece));
      check.Look(piece);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(Run("load", context, 1));
    if (const std::string found = check.Found(); !found.empty()) {
      Notify(training_.observer.notice, "warning: " + folder + ": " + found +
                                            ": begin with other weights, for training does not "
                                            "mend them");
    }
    return absl::OkStatus();
  }

  // The tokenizer of the model, where that of the data has no files, or has the ids of an imported
  // one, whose files come out as they were.
  void HandTokenizerOn(CheckpointInfo* info) const {
    if (tokenizer_files_ == nullptr) return;
    if (info->tokenizer_files != nullptr && model_files_ == nullptr) return;
    if (info->tokenizer.known() && !info->tokenizer.SameAs(tokenizer_files_->id)) return;
    info->tokenizer = tokenizer_files_->id;
    info->tokenizer_files = tokenizer_files_;
  }

  absl::Status MayWrite() const { return oneflow::MayWrite(writer_); }
  Notice NoticeOfFirst() const { return group_.IsFirst() ? training_.observer.notice : nullptr; }

  // `reports`: a step; those of a run that reports nothing take all their steps.
  absl::Status Run(std::string_view program, const RunContext& context, int64_t steps,
                   int64_t reports = 0) {
    return group_.Run(program, context, steps, reports);
  }

  RunContext Context(const std::string& program) const {
    RunContext context;
    context.seed = run_.seed();
    context.end_of_text = training_.data.end_of_text;
    context.marks_documents = training_.data.marks_documents;
    const proto::Program* p = FindProgram(plan_, program);
    context.micro_batches = p == nullptr ? 1 : p->micro_batches();
    context.micro_batch_size = p == nullptr ? 1 : p->micro_batch_size();
    return context;
  }

  const Training& training_;
  const proto::Plan& plan_;
  const TrainerOptions& options_;
  const proto::Run& run_;
  ProcessGroup& group_;
  MetricsLog* const log_;  // null: of another process
  const WriterOptions writer_;
  bool begun_ = false;  // the attempt
  bool warned_of_validation_ = false;
  double paused_seconds_[kPauses] = {};
  // From the checkpoint that the run goes on from, or begins with.
  ModelNotes notes_;
  std::shared_ptr<const ModelFiles> model_files_;
  std::shared_ptr<const TokenizerFiles> tokenizer_files_;
};

absl::Status CheckRounds(const proto::Plan& plan, const proto::Run& run) {
  const int64_t round = StepsARound(plan);
  for (const auto& [flag, steps] :
       {std::pair("steps", run.steps()), std::pair("eval_every", run.eval_every()),
        std::pair("checkpoint_every", run.checkpoint_every())}) {
    if (steps % round == 0) continue;
    return InputError("--" + std::string(flag) + "=" + std::to_string(steps),
                      "the plan's pipe is drained every " + std::to_string(round) + " steps",
                      "use a multiple of that");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainLoop(const Training& training, MetricsLog* log, bool goes_on) {
  const proto::Plan& plan = training.plan;
  const proto::Run& run = training.run;
  const TokenSource* const eval = training.data.validation;
  RETURN_IF_ERROR(CheckRounds(plan, run));
  Loop loop(training, log);
  RETURN_IF_ERROR(loop.BeginAttempt());
  RETURN_IF_ERROR(training.group.Meet("folder"));
  ASSIGN_OR_RETURN(int64_t step, loop.Start(goes_on));
  if (step % StepsARound(plan) != 0) {
    return InputError("--resume",
                      "the checkpoint is of step " + std::to_string(step) +
                          ", and the plan's pipe is drained every " +
                          std::to_string(StepsARound(plan)) + " steps",
                      "go on with a plan of as many --steps_a_round as it was trained with");
  }
  RETURN_IF_ERROR(loop.MakeRoom(goes_on, step));
  if (step >= run.steps()) {
    training.Say(absl::StrCat("the checkpoint is of step ", step, ": --steps=", run.steps(),
                              " leaves nothing to do"));
    if (eval != nullptr) {
      ASSIGN_OR_RETURN(const MeanLoss loss, loop.Evaluate(*eval));
      if (log != nullptr) log->Evaluated(step, loss);
    }
  }
  const int64_t round = StepsARound(plan);
  const auto& between = training.observer.between_steps;
  const int64_t most = between ? round : std::max<int64_t>(1, kMostStepsOfChunk / round) * round;
  int64_t saved = step;
  bool stopped = training.group.stopped();
  while (!stopped) {
    if (between && !between(step)) {
      if (step > saved && !run.checkpoint_dir().empty()) RETURN_IF_ERROR(loop.Save(step));
      return step < run.steps() ? Stopped() : absl::OkStatus();
    }
    if (step >= run.steps()) break;
    const int64_t next = std::min({NextBoundary(step, run.eval_every(), run.steps()),
                                   NextBoundary(step, run.checkpoint_every(), run.steps()),
                                   NextBoundary(step, most, run.steps())});
    const absl::StatusOr<int64_t> trained = loop.Train(step, next - step, *training.data.train);
    stopped = training.group.stopped();
    std::optional<MeanLoss> validation;
    const bool eval_due =
        next == run.steps() || (run.eval_every() > 0 && next % run.eval_every() == 0);
    absl::Status evaluated;
    if (trained.ok() && eval != nullptr && eval_due && !stopped) {
      const absl::StatusOr<MeanLoss> loss = loop.Evaluate(*eval);
      if (loss.ok()) validation = *loss;
      evaluated = loss.status();
      stopped = absl::IsCancelled(evaluated);  // the step is done all the same, and saved
    }
    absl::Status logged;
    if (log != nullptr) {
      logged = log->FinishChunk(validation,
                                trained.ok() ? std::optional<int64_t>(*trained) : std::nullopt);
      log->Paused(kValidation, loop.paused_seconds(kValidation));
    }
    RETURN_IF_ERROR(trained.status());
    step += *trained;
    const bool save_due = stopped || !evaluated.ok() || step == run.steps() ||
                          (run.checkpoint_every() > 0 && step % run.checkpoint_every() == 0);
    if (save_due && step > saved && !run.checkpoint_dir().empty()) {
      RETURN_IF_ERROR(loop.Save(step));
      if (log != nullptr) log->Paused(kCheckpoint, loop.paused_seconds(kCheckpoint));
      saved = step;
      stopped = stopped || training.group.stopped();
    }
    RETURN_IF_ERROR(logged);  // after the checkpoint: a full disk elsewhere costs no training
    if (!stopped) RETURN_IF_ERROR(evaluated);
  }
  return stopped ? Stopped() : absl::OkStatus();
}

}  // namespace oneflow
