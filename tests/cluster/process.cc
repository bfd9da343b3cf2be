#include "tests/cluster/process.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/base/status.h"
#include "tests/cluster/watched_communicator.h"
#include "training/trainer/resume.h"

namespace oneflow::cluster {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kJob = 20;
constexpr JobTime kSilence = 5 * kJobSecond;
// Duration of a worker's turn.
constexpr JobTime kTurn = 2 * kMillisecond;

}  // namespace

Process::Process(const Surroundings& around, int index, int64_t attempt, int host, std::string disk)
    : around_(around),
      index_(index),
      attempt_(attempt),
      disk_(std::move(disk)),
      life_(around.simulation, host),
      thread_([this](JobTime delay,
                     std::function<void()> event) { life_.After(delay, std::move(event)); },
              [this] { Main(); }),
      runs_(MakeRuns()) {
  std::error_code ignored;
  fs::create_directory_symlink(fs::path(disk_).parent_path() / "disk", disk_, ignored);
}

std::unique_ptr<RunsInStep> Process::MakeRuns() {
  RunsInStep::Calls calls;
  calls.begins = [this](uint64_t run, std::string_view program, int64_t first, int64_t steps) {
    control_->Begins(run, program, first, steps);
  };
  calls.report = [this](uint64_t run, int64_t step, std::span<const double> values) {
    control_->Report(run, step, values);
  };
  calls.fails = [this](const absl::Status& why) { control_->Fail(why); };
  calls.await_end = [this] { return control_->status(); };
  calls.let_go = [this](const absl::Status& why) { endpoint_->Break(why); };
  return std::make_unique<RunsInStep>(
      index_ == 0, std::move(calls),
      [this](auto& changed, auto& lock, const auto& is_true) { Wait(changed, lock, is_true); });
}

Process::~Process() {
  if (!over_) Kill();
}

std::string Process::Name() const {
  return absl::StrCat("process ", index_, " of attempt ", attempt_);
}

void Process::Start(JobTime delay) { thread_.Start(delay); }

void Process::Changed() {
  woken_ = true;
  thread_.Wake();
}

void Process::Stop() {
  around_.simulation.Note(Name() + " is stopped");
  life_.Stop();
}

void Process::Continue() {
  if (over_) return;
  around_.simulation.Note(Name() + " goes on");
  went_on_ = around_.simulation.now();
  life_.Continue();
}

void Process::Signal() {
  if (over_ || control_ == nullptr || !control_->joined()) return;
  around_.simulation.Note(Name() + " gets SIGTERM");
  life_.After(0, [this] { control_->AskStop(); });
}

// Its memory, files and links are gone at once; what is left of it unwinds without any effect.
void Process::Kill() {
  if (over_ || killed_) return;
  around_.simulation.Note(Name() + " is killed");
  killed_ = true;
  life_.Die();
  std::error_code ignored;
  fs::remove(disk_, ignored);
  if (endpoint_ != nullptr) endpoint_->Disappear();
  if (control_ != nullptr) control_->Disappear();
  runs_->End(Killed());
  if (!thread_.Finish()) around_.simulation.Violate(Name() + " cannot be unwound");
  if (!over_) BeOver();
}

// The process exits.
void Process::BeOver() {
  over_ = true;
  over_at_ = around_.simulation.now();
  if (endpoint_ != nullptr) around_.coverage->foreign += endpoint_->foreign();
  if (painter_) around_.coverage->painted += painter_->found();
  if (endpoint_ != nullptr) endpoint_->Disappear();
  if (control_ != nullptr) control_->Disappear();
  life_.Die();
  std::error_code ignored;
  fs::remove(disk_, ignored);
}

void Process::Main() {
  absl::Status trained = Train();
  // As the program does: an interruption that all have agreed upon is a good end.
  const bool good = trained.ok() || (absl::IsCancelled(trained) && runs_->stopped());
  if (control_->joined() && !killed_) {
    if (good) {
      control_->Leave();
    } else {
      control_->Fail(trained);
    }
    thread_.WaitFor([this] { return control_->over() || killed_; });
    if (!control_->status().ok()) trained = control_->status();
  }
  outcome_ = trained;
  if (!killed_) around_.simulation.Note(absl::StrCat(Name(), " ends: ", trained.ToString()));
  BeOver();
  if (!killed_) around_.on_over(*this);
}

absl::Status Process::Train() {
  MemberStateOptions options;
  options.self = {.process = index_,
                  .processes = around_.training.processes,
                  .attempt = attempt_,
                  .host = absl::StrCat("h", host()),
                  .ranks = {index_, 1},
                  .token = "token",
                  .facts = {{"plan", around_.training.plan.fingerprint()}}};
  options.coordinator = "h0:1";
  control_ = std::make_unique<ControlMember>(
      around_.control, life_, options, kSilence,
      ControlMember::Callbacks{
          .on_end = [this](const absl::Status& why) { End(why); },
          .freeze = [this] { return runs_->Freeze(); },
          .stop_at = [this](const StepPosition& end) { runs_->StopAt(end); },
          .on_report = [this](
                           uint64_t run, int64_t step,
                           std::span<const double> values) { runs_->Deliver(run, step, values); },
          .changed = [this] { Changed(); }});
  if (killed_) return Killed();
  control_->Start();
  thread_.WaitFor([this] { return control_->joined() || control_->over() || killed_; });
  if (killed_) return Killed();
  if (!control_->joined()) return control_->status();
  endpoint_ = std::make_shared<Endpoint>(
      around_.network, life_, index_, kJob, static_cast<uint32_t>(attempt_),
      [this](int, const absl::Status& why) { control_->Fail(why); });
  around_.network.Add(endpoint_);

  TrainerOptions training = around_.training.options;
  training.run.set_checkpoint_dir(disk_ + "/ckpt");
  training.run.set_resume("auto");
  training.attempt = attempt_;
  training.locks_folder = false;
  training.run.set_metrics(metrics());
  training.watches = false;
  ASSIGN_OR_RETURN(const auto trainer,
                   Trainer::Create(around_.training.plan, {.train = &around_.training.tokens},
                                   training, this, {}));
  absl::Status trained = trainer->Run();
  // All of them do, for all have stopped; what the network still has of the run must not matter.
  if (around_.training.goes_on_in_place && absl::IsCancelled(trained) && runs_->stopped()) {
    around_.simulation.Note(Name() + " goes on after the stop");
    runs_->Attach(nullptr);
    runs_ = MakeRuns();
    runs_->Attach(runtime_);
    if (control_->over()) runs_->End(control_->status());
    trained = trainer->Run();
  }
  return trained;
}

void Process::Configure(RuntimeOptions* options) {
  options->ranks = ranks();
  options->make_communicator = [this](const Group& group, const ExchangeBounds& bounds) {
    return MakeCommunicator(group, bounds);
  };
  options->meet = [this] {
    RETURN_IF_ERROR(Meet("communicators"));
    if (!std::exchange(watches_, true)) endpoint_->Watch(kSilence);
    return absl::OkStatus();
  };
  options->make_kernel = [this](const KernelSetup& setup) { return MakeKernel(setup); };
  options->prove = false;  // once, by the test
  options->spin = false;
  options->draw_worker = [this](int workers) { return DrawWorker(workers); };
}

void Process::Attach(Runtime* runtime) {
  runs_->Attach(runtime);
  runtime_ = runtime;
  if (runtime == nullptr) {
    // The arenas go: nobody may read or write them any more.
    if (!killed_ && endpoint_->TouchesMemory()) {
      around_.simulation.Violate(Name() + " frees memory that the network still touches");
    }
    return;
  }
  const proto::Plan& plan = around_.training.plan;
  const absl::StatusOr<StageMesh> mesh = MakeStageMesh(plan);
  for (const proto::Register& reg : plan.persistent()) {
    const int rank = ranks().begin;
    if (painter_ || !mesh.ok() || reg.stage() != mesh->RankToStage(rank)) continue;
    painter_.emplace(plan, reg.stage(),
                     runtime->PersistentBytes(rank, reg.id()).data() - reg.offset());
  }
}

void Process::End(const absl::Status& why) {
  runs_->End(why);
  if (endpoint_ != nullptr) endpoint_->Break(why);
}

absl::Status Process::Run(std::string_view program, RunContext context, int64_t steps,
                          int64_t reports) {
  around_.simulation.Note(
      absl::StrCat(Name(), " runs ", std::string(program), " from step ", context.first_step));
  if (painter_) painter_->SetProgram(std::string(program));
  const absl::Status status = runs_->Run(program, std::move(context), steps, reports);
  if (status.ok() && endpoint_->TouchesMemory()) {
    around_.simulation.Violate(
        absl::StrCat(Name(), " has ended a run, and the network still touches its memory"));
  }
  if (!status.ok() && !killed_) {
    around_.simulation.Note(absl::StrCat(Name(), ": ", status.ToString()));
  }
  return status;
}

absl::StatusOr<std::string> Process::Round(const std::string& name, std::string part,
                                           const Merge& merge) {
  if (killed_) return Killed();
  control_->StartRound(name, std::move(part));
  for (;;) {
    std::optional<std::vector<std::string>> parts;
    std::optional<absl::StatusOr<std::string>> answer;
    thread_.WaitFor([&] {
      if (!answer) answer = control_->TakeAnswer();
      if (!parts) parts = control_->TakeParts();
      return answer || parts || control_->over() || killed_;
    });
    if (killed_) return Killed();
    if (answer) return *answer;
    if (control_->over()) {
      return control_->status().ok() ? absl::FailedPreconditionError("the process has left")
                                     : control_->status();
    }
    const absl::StatusOr<std::string> merged = merge(*parts);
    if (!merged.ok()) control_->Fail(merged.status());
    if (name == "checkpoint" && merged.ok() && !killed_) around_.on_commit(*merged);
    control_->AnswerRound(merged);
  }
}

void Process::Wait(std::condition_variable&, std::unique_lock<std::mutex>& lock,
                   const std::function<bool()>& is_true) {
  while (!is_true()) {
    lock.unlock();
    woken_ = false;
    thread_.WaitFor([this] { return std::exchange(woken_, false) || killed_; });
    lock.lock();
  }
}

// All workers in turn, in an order that is drawn anew for each round. When none has done anything
// for some rounds they wait to be woken.
int Process::DrawWorker(int workers) {
  idle_ = progress_ == progress_seen_ ? idle_ + 1 : 0;
  progress_seen_ = progress_;
  if (!killed_ && idle_ > 2 * workers) {
    idle_ = 0;
    const JobTime since = around_.simulation.now();
    thread_.WaitFor([this] { return woken_ || killed_; });
    woken_ = false;
    const JobTime now = around_.simulation.now();
    if (now - since >= kJobSecond / 2) waited_until_ = now;
  }
  if (!killed_ && around_.simulation.OneIn(3)) {
    thread_.Pause(around_.simulation.Between(kTurn / 10, kTurn) * slower_);
  }
  if (turns_.empty()) {
    for (int w = 0; w < workers; ++w) turns_.push_back(w);
    for (int w = workers - 1; w > 0; --w) {
      std::swap(turns_[w], turns_[around_.simulation.Below(w + 1)]);
    }
  }
  const int worker = turns_.back();
  turns_.pop_back();
  return worker;
}

std::unique_ptr<Communicator> Process::MakeCommunicator(const Group& group,
                                                        const ExchangeBounds& bounds) {
  return std::make_unique<WatchedCommunicator>(
      endpoint_->MakeCommunicator(group, bounds),
      [this, id = group.id](int member, const ExchangeEntry& entry) {
        endpoint_->SetWindow(id, entry.workspace,
                             entry.work->WindowBytes(member, entry.accumulate));
      },
      [this] { ++progress_; }, [this] { Changed(); },
      [this] { return painter_ ? &*painter_ : nullptr; });
}

absl::StatusOr<Kernel> Process::MakeKernel(const KernelSetup& setup) {
  ASSIGN_OR_RETURN(Kernel kernel, oneflow::MakeKernel(setup));
  return Kernel([this, kernel = std::move(kernel)](const KernelCall& call) {
    ++progress_;
    if (std::exchange(fail_next_kernel_, false)) {
      failed_at_ = around_.simulation.now();
      failure_ = "a kernel failed";
      return absl::ResourceExhaustedError(failure_);
    }
    return kernel(call);
  });
}

bool Process::AwaitMayWrite() {
  // The log of metrics, which asks on a thread of its own, is not a part of the simulation.
  if (ControlThread::Current() != &thread_) return true;
  if (killed_) return false;
  around_.on_disk(*this);
  thread_.Pause(around_.simulation.Between(0, kMillisecond));
  if (killed_) return false;
  const bool may = control_->MayWrite();
  if (may) around_.may_write(*this);
  return may;
}

bool Process::MeetsFullDisk() {
  if (!disk_is_full_ || ControlThread::Current() != &thread_) return false;
  failure_ = "No space left on device";
  return true;
}

}  // namespace oneflow::cluster
