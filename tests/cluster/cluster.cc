#include "tests/cluster/cluster.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAttempts = 8;
constexpr int kFaultyAttempts = 3;               // the first of them may meet losses
constexpr JobTime kMostTime = 400 * kJobSecond;  // of an attempt
// Approximate duration of an attempt without faults.
constexpr JobTime kTypical = 14 * kJobSecond;
constexpr JobTime kSilence = 5 * kJobSecond;
// In the sentence about a link that carries nothing, between the names of its ends.
constexpr char kUnheard[] = ") reports: it has not heard process ";
constexpr JobTime kTimeToEnd = 3 * kJobSecond;  // for a process that was stopped, once it goes on

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> ReadFiles(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = ReadAll(entry.path());
  }
  return files;
}

NetworkDelays DrawDelays(Simulation& simulation) {
  NetworkDelays delays;
  delays.most = kMillisecond << simulation.Below(5);
  delays.late_once_in = 5 + simulation.Below(100);
  return delays;
}

// With what differs from seed to seed.
Training Drawn(Training training, Simulation& simulation) {
  training.options.run.set_checkpoint_every(1 + static_cast<int64_t>(simulation.Below(3)));
  training.goes_on_in_place = simulation.OneIn(2);
  training.options.run.set_keep(simulation.OneIn(2) ? 0 : 2);
  return training;
}

}  // namespace

std::map<int64_t, std::map<std::string, std::string>> ReadCheckpoints(const std::string& dir) {
  std::map<int64_t, std::map<std::string, std::string>> all;
  const auto listed = ListCheckpoints(dir);
  if (!listed.ok()) return all;
  for (const ListedCheckpoint& it : *listed) {
    if (it.complete) all[it.step] = ReadFiles(it.folder);
  }
  return all;
}

std::map<int64_t, std::string> ReadLosses(const std::string& path) {
  std::map<int64_t, std::string> losses;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t loss = line.find("\"loss\": "), end = line.find(',', loss);
    int64_t step = 0;
    if (end == line.npos || !absl::SimpleAtoi(line.substr(9, line.find(',') - 9), &step)) continue;
    losses[step] = line.substr(loss, end - loss);
  }
  return losses;
}

const char* Cluster::LossName(Loss loss) {
  static const char* const names[] = {
      "nothing",     "kill",         "a short stop", "a long stop",    "a short cut",
      "a long cut",  "one link cut", "power",        "a signal",       "a failed kernel",
      "a full disk", "slowness",     "a late start", "a data link cut"};
  return names[loss];
}

Cluster::Cluster(const Training& training, const Reference& reference, const std::string& folder,
                 uint64_t seed, const Faults& faults, Coverage* coverage)
    : reference_(reference),
      folder_(folder),
      simulation_(seed),
      training_(Drawn(training, simulation_)),
      disk_(folder + "/disk", faults),
      network_(simulation_, links_, data_links_, training.processes, DrawDelays(simulation_),
               faults),
      control_{.simulation = simulation_, .links = links_, .faults = faults},
      around_{.simulation = simulation_,
              .links = links_,
              .network = network_,
              .control = control_,
              .training = training_,
              .coverage = coverage,
              .on_disk = [this](Process& process) { OnDisk(process); },
              .may_write = [this](Process& process) { MayWrite(process); },
              .on_commit = [this](const std::string& where) { OnCommit(where); },
              .on_over =
                  [this](Process& process) {
                    if (process.outcome().ok()) return;
                    given_up_.emplace(process.attempt(), simulation_.now());
                  }},
      coverage_(coverage) {
  disk_.SetFull([this] {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->MeetsFullDisk(); });
  });
}

// Of a process that has failed by itself, or was killed.
void Cluster::CheckCause() {
  if (loss_ == kNothing) return;
  const Process& victim = At(victim_);
  const bool killed = loss_ == kKill && all_had_joined_;
  if (victim.failure().empty() && !killed) return;
  const std::string name =
      absl::StrCat("host h", victim.host(), " (process ", victim_, ", rank ", victim_, "): ");
  const std::string what =
      killed ? "its connection broke: it was killed, or exited without a word" : victim.failure();
  ++coverage_->causes[LossName(loss_)];
  for (int p = 0; p < training_.processes; ++p) {
    const Process& process = At(p);
    if (process.killed() || !process.over() || process.outcome().ok()) continue;
    const Cause cause = FindCause(process.outcome());
    const std::string sentence(process.outcome().message());
    if (cause.process == victim_ && cause.rank == victim_ &&
        cause.host == absl::StrCat("h", victim.host()) && sentence.starts_with(name) &&
        sentence.find(what) != sentence.npos) {
      continue;
    }
    simulation_.Violate(
        absl::StrCat(process.Name(), " reports: ", sentence, "; the cause is ", name, what));
  }
}

Cluster::~Cluster() {
  for (const auto& process : processes_) process->Kill();
}

void Cluster::StartAttempt() {
  ++attempt_;
  ++coverage_->attempts;
  first_ = static_cast<int>(processes_.size());
  began_ = simulation_.now();
  loss_ = kNothing;
  victim_ = -1;
  expects_error_ = false;
  on_disk_.clear();
  disk_operations_ = 0;
  control_.slower = 0;
  simulation_.Note(absl::StrCat("attempt ", attempt_, " begins"));
  for (int p = 0; p < training_.processes; ++p) {
    // On a host that the others reach.
    int host = p;
    for (int other = 0; other < training_.processes; ++other) {
      if (!network_.AreUp(p, other)) host = static_cast<int>(4 * attempt_) + p;
    }
    processes_.push_back(std::make_unique<Process>(
        around_, p, attempt_, host, absl::StrCat(folder_, "/host", p, "-", attempt_)));
    processes_.back()->Start(simulation_.Between(0, longest_start_));
  }
  longest_start_ = 300 * kMillisecond;
  // A process of the attempt before that was held up may come now.
  if (Process* late = std::exchange(late_, nullptr)) {
    simulation_.After(simulation_.Between(0, kJobSecond), [late] { late->Continue(); });
  }
  if (attempt_ <= kFaultyAttempts) PlanLosses();
}

void Cluster::PlanLosses() {
  Planned planned;
  planned.loss = static_cast<Loss>(simulation_.Below(kLosses));
  planned.process = static_cast<int>(simulation_.Below(training_.processes));
  const int64_t attempt = attempt_;
  if (simulation_.OneIn(4)) {
    At(static_cast<int>(simulation_.Below(training_.processes))).Slow(10);
  }
  if (planned.loss == kNothing) return;
  if (simulation_.OneIn(3)) {
    planned.disk_operation = static_cast<int64_t>(simulation_.Below(60));
    on_disk_.push_back(planned);
    return;
  }
  const JobTime when = planned.loss == kLateStart || simulation_.OneIn(5)
                           ? simulation_.Between(0, 400 * kMillisecond)
                           : simulation_.Between(0, kTypical);
  simulation_.After(when, [this, planned, attempt] {
    if (attempt == attempt_) Happen(planned);
  });
}

void Cluster::OnDisk(Process& process) {
  if (process.attempt() != attempt_) return;
  const int64_t operation = disk_operations_++;
  for (Planned planned : on_disk_) {
    if (planned.disk_operation != operation) continue;
    // The fault hits the process that writes.
    planned.process = process.index();
    simulation_.After(0, [this, planned, attempt = attempt_] {
      if (attempt == attempt_) Happen(planned);
    });
  }
}

void Cluster::Happen(const Planned& planned) {
  Process& victim = At(planned.process);
  if (victim.over()) return;
  loss_ = planned.loss;
  victim_ = planned.process;
  all_had_joined_ = true;
  for (int p = 0; p < training_.processes; ++p) all_had_joined_ &= At(p).joined();
  ++coverage_->losses[LossName(loss_)];
  simulation_.Note(absl::StrCat(LossName(loss_), " at ", victim.Name()));
  switch (planned.loss) {
    case kKill: victim.Kill(); return MustEndIn(3 * kJobSecond, "a process was killed");
    case kStopShort:
    case kStopLong: {
      victim.Stop();
      const bool is_short = planned.loss == kStopShort;
      simulation_.After(is_short ? simulation_.Between(kMillisecond, 3 * kJobSecond)
                                 : simulation_.Between(6 * kJobSecond, 30 * kJobSecond),
                        [&victim] { victim.Continue(); });
      if (!is_short) MustEndIn(10 * kJobSecond, "a process was stopped");
      return;
    }
    case kCutShort:
      return CutFrom(planned.process, simulation_.Between(kMillisecond, 2 * kJobSecond));
    case kCutLong:
      CutFrom(planned.process, simulation_.Between(11 * kJobSecond, 30 * kJobSecond));
      return MustEndIn(10 * kJobSecond, "a host was cut off");
    case kCutPair: {
      const int other = (planned.process + 1) % training_.processes;
      CutBetween(&links_, planned.process, other,
                 simulation_.Between(12 * kJobSecond, 30 * kJobSecond));
      expects_error_ = true;
      if (victim.SpeaksTo(other) || victim.index() == 0 || other == 0) {
        MustEndIn(10 * kJobSecond, "two hosts have lost each other");
      }
      return;
    }
    case kCutData: {
      const bool all = simulation_.OneIn(2);
      const JobTime duration = simulation_.Between(12 * kJobSecond, 30 * kJobSecond);
      bool exchange = false;
      for (int other = 0; other < training_.processes; ++other) {
        if (other == planned.process) continue;
        if (!all && other != (planned.process + 1) % training_.processes) continue;
        CutBetween(&data_links_, planned.process, other, duration);
        exchange |= victim.SpeaksTo(other);
      }
      expects_error_ = true;
      if (exchange) MustEndIn(10 * kJobSecond, "the network of exchanges was cut");
      return;
    }
    case kPower:
      expects_error_ = true;
      for (const auto& process : processes_) process->Kill();
      disk_.LosePower(simulation_);
      return CheckDisk();
    case kSignal: return victim.Signal();
    case kFailKernel:
      victim.FailNextKernel();
      control_.slower = 2 * kJobSecond;
      expects_error_ = true;
      return;
    case kFullDisk:
      victim.FillDisk();
      expects_error_ = true;
      return;
    case kSlow: return victim.Slow(10);
    case kLateStart: {
      // It comes in the next attempt only; this one loses another process meanwhile.
      if (victim.joined()) return;
      expects_error_ = true;
      victim.Stop();
      late_ = &victim;
      longest_start_ = 2 * kJobSecond;
      return At((planned.process + 1) % training_.processes).Kill();
    }
    case kNothing:
    case kLosses: break;
  }
}

void Cluster::CutFrom(int process, JobTime duration) {
  for (int other = 0; other < training_.processes; ++other) {
    if (other != process) CutBetween(&links_, process, other, duration);
  }
}

void Cluster::CutBetween(Links* links, int process, int other, JobTime duration) {
  const int a = At(process).host(), b = At(other).host();
  links->Cut(a, b);
  simulation_.After(duration, [links, a, b] { links->Restore(a, b); });
}

// All that can end has ended by then; but while they gather, they wait for whoever is missing.
void Cluster::MustEndIn(JobTime limit, const std::string& why) {
  expects_error_ = true;
  for (int p = 0; p < training_.processes; ++p) {
    if (!At(p).joined() && !At(p).killed()) return;
  }
  simulation_.After(limit, [this, why, limit, first = first_] {
    for (int p = 0; p < training_.processes; ++p) {
      const Process& process = *processes_[first + p];
      if (process.over() || process.is_stopped()) continue;
      if (simulation_.now() < process.went_on() + kTimeToEnd) continue;
      simulation_.Violate(
          absl::StrCat(process.Name(), " is still there ", limit / kJobSecond, " s after ", why));
    }
  });
}

bool Cluster::IsUnreachable(const Process& process) const {
  if (process.is_stopped()) return true;
  for (int p = 0; p < training_.processes; ++p) {
    if (!links_.AreUp(process.host(), p)) return true;
  }
  return false;
}

// The view of a launcher: all have exited, or some have and it cannot reach the others. It ends a
// process that has not joined when another fails.
bool Cluster::AttemptIsOver() {
  bool some_over = false, all_over = true, failed = false;
  JobTime last = began_;
  for (int p = 0; p < training_.processes; ++p) {
    const Process& process = At(p);
    some_over |= process.over();
    failed |= process.over() && !process.outcome().ok();
    if (process.over()) last = std::max(last, process.over_at());
    all_over &= process.over() || IsUnreachable(process);
  }
  const bool waited = simulation_.now() >= last + 2 * kJobSecond;
  if (failed && waited) {
    for (int p = 0; p < training_.processes; ++p) {
      if (!At(p).joined() && !IsUnreachable(At(p))) At(p).Kill();
    }
  }
  const bool others = std::any_of(processes_.begin() + first_, processes_.end(),
                                  [](const auto& process) { return !process->over(); });
  return some_over && all_over && (!others || waited);
}

// The launcher's own clock.
void Cluster::Beat() {
  simulation_.After(kJobSecond / 4, [this] { Beat(); });
}

std::string Cluster::Run() {
  Beat();
  while (!done_ && simulation_.violation().empty()) {
    if (attempt_ == kMostAttempts) {
      simulation_.Violate("the training does not end");
      break;
    }
    StartAttempt();
    for (uint64_t turn = 0; simulation_.violation().empty(); ++turn) {
      if (turn % 64 == 0 && AttemptIsOver()) break;
      simulation_.RunNext();
      if (simulation_.now() > began_ + kMostTime) {
        simulation_.Violate("an attempt does not end: who waits for whom is not known");
      }
    }
    if (simulation_.violation().empty()) CheckAttempt();
  }
  return simulation_.violation().empty() ? "" : simulation_.Explain();
}

void Cluster::CheckAttempt() {
  int good = 0, cancelled = 0;
  for (int p = 0; p < training_.processes; ++p) {
    const Process& process = At(p);
    if (process.killed() || !process.over()) continue;
    const absl::Status& outcome = process.outcome();
    good += outcome.ok();
    cancelled += absl::IsCancelled(outcome);
    const bool fault = absl::IsUnavailable(outcome) || absl::IsAborted(outcome) ||
                       absl::IsDeadlineExceeded(outcome) || absl::IsResourceExhausted(outcome);
    if (outcome.ok() || absl::IsCancelled(outcome)) continue;
    if (!fault) simulation_.Violate(absl::StrCat(process.Name(), ": ", outcome.ToString()));
    if (loss_ == kCutData && outcome.ToString().find(kUnheard) == std::string::npos) {
      simulation_.Violate(absl::StrCat(process.Name(), " names no link: ", outcome.ToString()));
    }
    if (!expects_error_) {
      simulation_.Violate(
          absl::StrCat(process.Name(), " ends, though nothing is lost: ", outcome.ToString()));
    }
  }
  if (cancelled > 0 && loss_ != kSignal) simulation_.Violate("an attempt stops without a signal");
  if ((cancelled > 0 || good > 0) && cancelled < training_.processes &&
      good < training_.processes && !expects_error_) {
    simulation_.Violate("some processes have done their work, others have not");
  }
  for (int p = 0; p < training_.processes; ++p) {
    const JobTime failed = At(p).failed_at();
    if (failed == 0) continue;
    for (int other = 0; other < training_.processes; ++other) {
      if (At(other).waited_until() < failed + kJobSecond) continue;
      simulation_.Violate(absl::StrCat(At(other).Name(), " waits on after a kernel of ",
                                       At(p).Name(), " has failed"));
    }
  }
  CheckCause();
  const std::map<int64_t, std::string> losses = ReadLosses(At(0).metrics());
  if (!losses.empty() && losses.begin()->first > 0) ++coverage_->resumed;
  for (const auto& [step, loss] : losses) {
    if (reference_.losses.at(step) == loss) continue;
    simulation_.Violate(absl::StrCat("attempt ", attempt_, ", step ", step, ": ", loss,
                                     ", undisturbed ", reference_.losses.at(step)));
  }
  CheckDisk();
  done_ = good == training_.processes;
  if (!done_) return;
  const auto listed = ListCheckpoints(disk_.folder() + "/ckpt");
  if (!listed.ok() || listed->empty() || listed->front().step != training_.options.run.steps()) {
    simulation_.Violate("the last checkpoint is missing");
  }
}

void Cluster::CheckDisk() {
  const std::string dir = disk_.folder() + "/ckpt";
  int64_t newest = 0;
  for (const auto& [step, files] : ReadCheckpoints(dir)) {
    newest = std::max(newest, step);
    if (reference_.folders.at(step) == files) continue;
    std::string which;
    for (const auto& [name, bytes] : reference_.folders.at(step)) {
      const auto found = files.find(name);
      if (found == files.end() || found->second != bytes) absl::StrAppend(&which, " ", name);
    }
    simulation_.Violate(absl::StrCat("the checkpoint of step ", step,
                                     " is not that of the undisturbed run:", which));
  }
  if (newest < committed_) {
    simulation_.Violate(absl::StrCat("the checkpoint of step ", committed_, " was committed; step ",
                                     newest, " is the newest"));
  }
}

// Whoever may write has been heard of, or has heard, within the silence.
void Cluster::MayWrite(Process& process) {
  const auto given_up = given_up_.find(process.attempt());
  if (given_up == given_up_.end() || simulation_.now() < given_up->second + kSilence) return;
  simulation_.Violate(process.Name() + " may write long after its attempt has ended");
}

void Cluster::OnCommit(const std::string& folder) {
  int64_t step = 0;
  if (absl::SimpleAtoi(folder.substr(folder.rfind('-') + 1), &step)) committed_ = step;
  simulation_.Note(absl::StrCat("the checkpoint of step ", step, " is committed"));
}

}  // namespace oneflow::cluster
