#include "tools/oneflow/train/join.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/verify/read_plan.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "training/job/job_keys.h"
#include "training/job/job_token.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10}, kPatienceWithLost{2};
// After the end of the attempt; with what passes before it, below the three seconds in which all
// are to be gone.
constexpr std::chrono::milliseconds kLastResort{1500};
// The most threads and files that the control channel, the network and the watches of a process
// take, but for the connections of process 0 to the others.
constexpr int kJobThreads = 24, kJobFiles = 32;
// For the others to hear that this process cannot join.
constexpr double kTellSeconds = 4;

// The keys that submit has left in the job's directory.
absl::StatusOr<std::optional<JobKeys>> KeysOfJob(const std::string& job_dir) {
  const std::string folder = job_dir + "/keys";
  std::error_code error;
  if (job_dir.empty() || !std::filesystem::exists(folder, error)) return std::nullopt;
  ASSIGN_OR_RETURN(JobKeys keys, ReadJobKeys(folder));
  return std::optional<JobKeys>(std::move(keys));
}

absl::StatusOr<int> CountRanks(const proto::Plan& plan) {
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  return mesh.ranks();
}

// If all write to one terminal or file, process 0 prints what all have agreed upon or it has
// decided, and the next one that it is gone.
bool IsPrintedHere(const Cause& cause, int process, bool has_joined) {
  if (!IsChild()) return true;
  if (cause.is_decided) return false;
  return cause.process == 0 ? process == 1 : !has_joined || cause.process == process;
}

// A process that was killed cannot say why.
absl::Status AddKernelKills(const absl::Status& outcome, const KernelKills& before) {
  const bool killed = absl::StrContains(outcome.message(), "killed") ||
                      absl::StrContains(outcome.message(), "ended by signal 9");
  const std::string why = killed ? DescribeKernelKills(before) : "";
  return why.empty() ? outcome : WithMessage(outcome, absl::StrCat(outcome.message(), "; ", why));
}

// Leaves the outcome with `report`. Returns what this process prints: no message where another one
// prints it.
absl::Status Conclude(absl::Status outcome, int process, const ProcessGroup* joined,
                      JobReport& report) {
  const Cause cause = FindCause(outcome);
  // An attempt that has refused this process may go on without it.
  if (joined != nullptr || process == 0 || !cause.is_decided) {
    const absl::Status reported =
        report.End({.code = ExitCode(outcome),
                    .step = joined == nullptr ? 0 : joined->steps_done(),
                    .host = cause.host,
                    .rank = cause.rank,
                    .sentence = outcome.ok() ? "done" : std::string(outcome.message())});
    if (outcome.ok()) outcome = reported;
  }
  return IsPrintedHere(cause, process, joined != nullptr) ? outcome
                                                          : absl::Status(outcome.code(), "");
}

absl::Status Conclude(absl::Status outcome, Together& together, JobReport& report) {
  outcome = AddKernelKills(outcome, together.kills_before);
  outcome = Conclude(outcome, together.group->index(), together.group.get(), report);
  // After a failure one of them may never end without a signal.
  if (together.children) together.children->Await(outcome.ok() ? kPatience : kPatienceWithLost);
  return outcome;
}

// The file of the token of a run is the same in all its processes on a host, and in later attempts.
struct NamedRun {
  std::string name;
  bool comes_once = false;  // a launcher has drawn the name: no later run has it
};

NamedRun NameOfRun(const JobPlacement& placement) {
  NamedRun run{.name = placement.coordinator};
  for (const char* launcher : {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"}) {
    const auto id = Variable(launcher);
    if (!id) continue;
    absl::StrAppend(&run.name, "-", *id);
    run.comes_once = run.comes_once || *id != "none";  // torchrun's default
  }
  return run;
}

// The folder that tells two jobs of one user on one host apart.
void FindFolder(const proto::Run& run, MemberOptions* member) {
  const std::string& named = run.job_dir().empty() ? run.checkpoint_dir() : run.job_dir();
  std::error_code error;
  // It may not be there yet.
  const auto absolute = std::filesystem::absolute(named.empty() ? "." : named, error);
  const auto folder = std::filesystem::weakly_canonical(absolute, error);
  member->folder = error ? named : folder.string();
  if (member->folder.size() > 1 && member->folder.ends_with('/')) member->folder.pop_back();
  member->names_folder = !named.empty();
}

// But for what is known of the plan, and of the network.
absl::StatusOr<MemberOptions> MakeMember(const JobPlacement& placement, const proto::Run& run) {
  MemberOptions member;
  member.coordinator = placement.starts_others ? "127.0.0.1:0" : placement.coordinator;
  member.other_ports = placement.other_ports;
  FindFolder(run, &member);
  member.process = placement.process;
  member.processes = placement.processes;
  member.attempt = placement.attempt;
  member.hosts = placement.hosts;
  member.join_seconds = run.join_seconds();
  member.silence_seconds = run.silence_seconds();
  if (placement.starts_others) {
    ASSIGN_OR_RETURN(member.token, DrawToken());
    return member;
  }
  ASSIGN_OR_RETURN(member.keys, KeysOfJob(run.job_dir()));
  member.token = Variable("ONEFLOW_JOB_TOKEN").value_or("");
  if (member.token.empty() && member.keys) member.token = member.keys->token;
  if (member.token.empty()) {
    ASSIGN_OR_RETURN(member.token, TokenOfRun(TokenFolder(), NameOfRun(placement).name));
  }
  return member;
}

// The device of exchanges. A coordinator at a name of loopback goes by its address: what a name
// leads to counts, and not its letters. Only where others may come from other hosts, on which the
// name leads elsewhere, it stays.
absl::StatusOr<std::string> FindNetwork(const JobPlacement& placement, const proto::Run& run,
                                        MemberOptions* member) {
  const NamedNetwork named{run.interface(), run.trust_network()};
  ASSIGN_OR_RETURN(const std::vector<NetworkDevice> devices, NetworkDevices());
  ASSIGN_OR_RETURN(const std::string device, ChooseDevice(named, devices));
  if (placement.starts_others) return device;
  const std::string host = placement.coordinator.substr(0, placement.coordinator.rfind(':'));
  std::optional<std::string> loopback = LoopbackAddress(host);
  const bool is_named = !named.interface.empty() || !named.trust_network.empty();
  // Whoever finds its own host there is on that of process 0. Jobs of several hosts have keys.
  if (!loopback && !is_named && !member->keys && IsThisHost(host)) loopback = "127.0.0.1";
  if (!loopback && !(is_named && device != "lo")) {
    return InputError(
        is_named ? "--interface, --trust_network" : "--interface",
        absl::StrCat(is_named ? "lead to loopback" : "is not given", ", and the coordinator at ",
                     placement.coordinator, " is beyond loopback"),
        "name the network that tensors may cross, unprotected: --interface=DEVICE or "
        "--trust_network=CIDR");
  }
  if (loopback && !(is_named && device != "lo" && member->keys)) {
    const bool is_ipv6 = loopback->find(':') != std::string::npos;
    member->coordinator = absl::StrCat(is_ipv6 ? absl::StrCat("[", *loopback, "]") : *loopback,
                                       placement.coordinator.substr(host.size()));
  }
  return device;
}

// All reports are sent and written. Whoever would take down links and libraries in order now may
// wait for a process that hangs.
[[noreturn]] void EndAtOnce(Together& together, const absl::Status& outcome) {
  together.children.reset();
  std::fflush(stdout);
  if (const std::string message(outcome.message()); !message.empty()) {
    std::fprintf(stderr, "oneflow: error: %s\n", message.c_str());
  }
  std::_Exit(ExitCode(outcome));
}

absl::StatusOr<Together> Join(const JobPlacement& placement, const proto::Run& run,
                              const proto::Plan* plan, std::vector<JoinFact> facts,
                              JobWatch* watch) {
  Together together;
  const auto on_note = [watch](int process, const std::string& name, const std::string& value) {
    watch->Note(process, name, value);
  };
  if (placement.processes == 1) {
    together.group = std::make_unique<SoleProcess>(on_note);
    return together;
  }
  ProcessesOptions options;
  ASSIGN_OR_RETURN(options.member, MakeMember(placement, run));
  ASSIGN_OR_RETURN(options.interface, FindNetwork(placement, run, &options.member));
  options.on_note = on_note;
  options.notice = PrintNotice;
  RETURN_IF_ERROR(CheckThreads(kJobThreads));
  RETURN_IF_ERROR(CheckFiles(kJobFiles + (placement.process == 0 ? placement.processes : 0)));
  if (plan != nullptr) {
    ASSIGN_OR_RETURN(const int ranks, CountRanks(*plan));
    RETURN_IF_ERROR(CheckDivides(placement.processes, ranks));
    const int each = ranks / placement.processes, first = placement.process * each;
    options.member.ranks = {first, each};
  }
  options.member.facts = std::move(facts);
  absl::Status started;
  if (placement.starts_others) {
    setenv("ONEFLOW_JOB_TOKEN", options.member.token.c_str(), 1);
    options.on_listening = [&](int port) {
      absl::StatusOr<Children> children =
          Children::Start(placement.processes, absl::StrCat("127.0.0.1:", port));
      started = children.status();
      if (children.ok()) together.children.emplace(*std::move(children));
    };
  }
  options.while_joining = [&] {
    if (together.children) return together.children->CheckJoining();
    if (IsParentAlive()) return absl::OkStatus();
    return MakeFailure({HostName(), 0}, absl::StatusCode::kAborted,
                       " was killed, or exited without a word, before all had joined");
  };
  // If all write to one terminal, process 0's word is enough.
  options.on_waits = [name = DescribeProcess({HostName(), placement.process,
                                              options.member.ranks})](const std::string& missing) {
    if (IsChild()) return;
    std::fprintf(stderr, "oneflow: %s waits for %s to join\n", name.c_str(), missing.c_str());
  };
  cuda::PrepareToMeet(options.interface);  // there are no other threads yet
  absl::StatusOr<std::unique_ptr<Processes>> processes = Processes::Join(std::move(options));
  RETURN_IF_ERROR(started);
  RETURN_IF_ERROR(processes.status());
  // All are here, and nobody else is to come by this name.
  if (const NamedRun named = NameOfRun(placement); placement.process == 0 && named.comes_once) {
    ForgetToken(TokenFolder(), named.name);
  }
  together.group = *std::move(processes);
  return together;
}

}  // namespace

bool PlanIsElsewhere(const JobPlacement& placement, const std::string& plan) {
  std::error_code error;
  return placement.process > 0 && !plan.empty() && !std::filesystem::exists(plan, error);
}

absl::StatusOr<Together> JoinOthers(const JobPlacement& placement, const proto::Run& run,
                                    const proto::Plan* plan, std::vector<JoinFact> facts,
                                    JobReport& report, JobWatch* watch) {
  const KernelKills before = CountKernelKills();
  absl::StatusOr<Together> together = Join(placement, run, plan, std::move(facts), watch);
  if (!together.ok()) {
    return Conclude(AddKernelKills(together.status(), before), placement.process, nullptr, report);
  }
  together->kills_before = before;
  if (placement.process == 0) report.Begin();
  return together;
}

absl::StatusOr<std::optional<proto::Plan>> SharePlan(ProcessGroup& group, const proto::Plan* plan,
                                                     const std::string& path) {
  constexpr char kKey[] = "plan", kNeeded[] = "needed";
  const auto post = [&](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
    if (std::find(parts.begin(), parts.end(), kNeeded) == parts.end()) return std::string();
    const std::string bytes = SerializePlan(*plan);
    if (bytes.size() > kMostJobBytes) {
      return InputError(path, "is too large to be sent to processes that do not have it",
                        "copy it to all hosts");
    }
    group.Post(kKey, bytes);
    return std::string();
  };
  RETURN_IF_ERROR(group.Round("plan", plan == nullptr ? kNeeded : "", post).status());
  std::optional<proto::Plan> received;
  if (plan == nullptr) {
    ASSIGN_OR_RETURN(const std::string bytes, group.Fetch(kKey));
    ASSIGN_OR_RETURN(received, ReceivePlan(bytes, path + ", from process 0"));
  }
  return received;
}

absl::Status CannotJoin(const JobPlacement& placement, const proto::Run& run, absl::Status status,
                        JobReport& report) {
  if (placement.processes > 1 && !placement.starts_others) {
    status = MakeFailure({HostName(), placement.process}, status);
    absl::StatusOr<MemberOptions> member = MakeMember(placement, run);
    if (member.ok() && FindNetwork(placement, run, &*member).ok()) {
      member->failed = status;
      member->join_seconds = kTellSeconds;
      Cause cause = FindCause(status);
      cause.is_decided = FindCause(Member::Join(*std::move(member), {}).status()).is_decided;
      status = WithCause(status, cause);
    }
  }
  return Conclude(status, placement.process, nullptr, report);
}

absl::Status LeaveTogether(Together together, const absl::Status& status, JobReport& report) {
  ProcessGroup& group = *together.group;
  // An interruption that all have agreed upon is a good end of theirs.
  const bool good = status.ok() || (absl::IsCancelled(status) && group.stopped());
  const absl::Status left = good ? group.Leave() : group.Fail(status);
  absl::Status outcome = Conclude(left.ok() ? status : left, together, report);
  if (group.count() > 1 && !outcome.ok() && !absl::IsCancelled(outcome)) {
    EndAtOnce(together, outcome);
  }
  return outcome;
}

LastResort::LastResort(Together& together, JobReport& report)
    : watcher_([&together, &report](const std::stop_token& stop) {
        const ProcessGroup& group = *together.group;
        std::mutex mutex;
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        // Since it was seen to have ended: this thread may have had no processor for long.
        for (std::optional<Clock::time_point> since;;) {
          const auto now = Clock::now();
          if (!since && !group.status().ok()) since = now;
          if (since && now - *since >= kLastResort) break;
          ended.wait_for(lock, stop, std::chrono::milliseconds(50), [] { return false; });
          if (stop.stop_requested()) return;
        }
        EndAtOnce(together, Conclude(group.status(), together, report));
      }) {}

}  // namespace oneflow
