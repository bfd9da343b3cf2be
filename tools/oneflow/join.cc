#include "tools/oneflow/join.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/job/job_keys.h"
#include "actor_runtime/job/job_token.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/verify/read_plan.h"
#include "tools/oneflow/flags.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10}, kPatienceWithLost{2};
// After the end of the attempt; with what passes before it, below the three seconds in which all
// are to be gone.
constexpr std::chrono::milliseconds kLastResort{1500};
// For the others to hear that this process cannot join.
constexpr double kTellSeconds = 4;

// Those that submit has left in the job's directory.
absl::StatusOr<std::optional<JobKeys>> KeysOfJob() {
  const std::string folder = FLAGS_job_dir + "/keys";
  std::error_code error;
  if (FLAGS_job_dir.empty() || !std::filesystem::exists(folder, error)) return std::nullopt;
  ASSIGN_OR_RETURN(JobKeys keys, ReadJobKeys(folder));
  return std::optional<JobKeys>(std::move(keys));
}

absl::StatusOr<int> CountRanks(const proto::Plan& plan) {
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  return mesh.ranks();
}

JobOutcome MakeOutcome(const absl::Status& status) {
  const std::string sentence = status.ok() ? "done" : std::string(status.message());
  const NamedProcess named = ProcessNamedIn(sentence);
  return {.code = ExitCode(status), .host = named.host, .rank = named.rank, .sentence = sentence};
}

// Leaves the outcome with `report`; returns it, quiet where another process tells it.
absl::Status Tell(Together& together, absl::Status outcome, JobReport& report) {
  const Processes* const processes = together.processes.get();
  JobOutcome end = MakeOutcome(outcome);
  end.step = processes == nullptr ? 0 : processes->steps_done();
  if (const absl::Status reported = report.End(end); outcome.ok()) outcome = reported;
  // After a failure one of them may never end without a signal.
  if (together.children) together.children->Await(outcome.ok() ? kPatience : kPatienceWithLost);
  if (processes == nullptr) return outcome;
  // Each prints it once. If all write to one terminal or file, it is the first, or, where that is
  // gone, the next.
  if (!together.children && !IsChild()) return outcome;
  const int named = ProcessNamedIn(end.sentence).process;
  return processes->index() == (named == 0 ? 1 : 0) ? outcome : Quiet(outcome);
}

// The same in all processes of a run on a host, and in its later attempts.
std::string NameOfRun(const JobPlacement& placement) {
  std::string name = placement.coordinator;
  for (const char* launcher : {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"}) {
    if (const auto id = Variable(launcher)) absl::StrAppend(&name, "-", *id);
  }
  return name;
}

// But for what is known of the plan, and of the network.
absl::StatusOr<MemberOptions> MemberFromFlags(const JobPlacement& placement) {
  MemberOptions member;
  member.coordinator = placement.starts_others ? "127.0.0.1:0" : placement.coordinator;
  member.process = placement.process;
  member.processes = placement.processes;
  member.attempt = placement.attempt;
  if (placement.starts_others) {
    ASSIGN_OR_RETURN(member.token, DrawToken());
    return member;
  }
  ASSIGN_OR_RETURN(member.keys, KeysOfJob());
  member.token = Variable("ONEFLOW_JOB_TOKEN").value_or("");
  if (member.token.empty() && member.keys) member.token = member.keys->token;
  if (member.token.empty()) {
    ASSIGN_OR_RETURN(member.token, TokenOfRun(TokenFolder(), NameOfRun(placement)));
  }
  return member;
}

// The device of exchanges. Sets the address that process 0 listens at where nobody has named a
// network: one of loopback.
absl::StatusOr<std::string> NetworkFromFlags(const JobPlacement& placement, MemberOptions* member) {
  const NamedNetwork named{FLAGS_interface, FLAGS_trust_network};
  ASSIGN_OR_RETURN(const std::vector<NetworkDevice> devices, NetworkDevices());
  ASSIGN_OR_RETURN(const std::string device, ChooseDevice(named, devices));
  if (placement.starts_others) return device;
  const std::string host = placement.coordinator.substr(0, placement.coordinator.rfind(':'));
  const std::optional<std::string> loopback = LoopbackAddress(host);
  const bool is_named = !named.interface.empty() || !named.trust_network.empty();
  if (!loopback && !(is_named && device != "lo")) {
    return InputError(
        is_named ? "--interface, --trust_network" : "--interface",
        absl::StrCat(is_named ? "lead to loopback" : "is not given", ", and the coordinator at ",
                     placement.coordinator, " is beyond loopback"),
        "name the network that tensors may cross, unprotected: --interface=DEVICE or "
        "--trust_network=CIDR");
  }
  if (loopback && !is_named) {
    member->listen =
        loopback->find(':') == std::string::npos ? *loopback : absl::StrCat("[", *loopback, "]");
  }
  return device;
}

// Process 0 tells why an attempt did not begin; others only that they have not reached it, or lost
// it.
absl::Status NotJoined(const JobPlacement& placement, const absl::Status& status,
                       JobReport& report) {
  if (placement.process == 0) return status;
  const int named = ProcessNamedIn(ToStd(status.message())).process;
  const bool is_alone =
      named == 0 || (absl::IsDeadlineExceeded(status) && named == placement.process);
  if (!is_alone) report.LeaveToOthers();
  return IsChild() && !(is_alone && placement.process == 1) ? Quiet(status) : status;
}

// All reports are sent and written. Whoever would take down links and libraries in order now may
// wait for a process that hangs.
[[noreturn]] void EndAtOnce(Together& together, const absl::Status& outcome) {
  together.children.reset();
  std::fflush(stdout);
  if (!IsQuiet(outcome)) {
    std::fprintf(stderr, "oneflow: error: %s\n", std::string(outcome.message()).c_str());
  }
  std::_Exit(ExitCode(outcome));
}

}  // namespace

std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<JobPlacement> PlacementFromFlags(
    absl::FunctionRef<std::optional<std::string>(const std::string&)> environment) {
  PlacementFlags flags;
  flags.coordinator = FLAGS_coordinator;
  if (FLAGS_process_index != -1) flags.process_index = FLAGS_process_index;
  if (FLAGS_processes != 0) flags.processes = FLAGS_processes;
  return FindPlacement(flags, environment);
}

bool PlanIsElsewhere(const JobPlacement& placement) {
  std::error_code error;
  return placement.process > 0 && !FLAGS_plan.empty() &&
         !std::filesystem::exists(FLAGS_plan, error);
}

absl::StatusOr<Together> JoinFromFlags(const JobPlacement& placement, const proto::Plan* plan,
                                       std::vector<JoinFact> facts, JobReport& report,
                                       JobWatch* watch) {
  Together together;
  ProcessesOptions options;
  ASSIGN_OR_RETURN(options.member, MemberFromFlags(placement));
  ASSIGN_OR_RETURN(options.interface, NetworkFromFlags(placement, &options.member));
  options.on_note = [watch](int process, const std::string& name, const std::string& value) {
    watch->Note(process, name, value);
  };
  if (plan != nullptr) {
    ASSIGN_OR_RETURN(const int ranks, CountRanks(*plan));
    RETURN_IF_ERROR(CheckDivides(placement.processes, ranks));
    const int each = ranks / placement.processes, first = placement.process * each;
    options.member.ranks = each == 1 ? absl::StrCat("rank ", first)
                                     : absl::StrCat("ranks ", first, " to ", first + each - 1);
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
  absl::Status missing;
  options.while_joining = [&] {
    if (missing.ok() && together.children) missing = together.children->CheckJoining(HostName());
    if (missing.ok() && !IsParentAlive()) {
      missing = absl::AbortedError(DescribeProcess(HostName(), 0) +
                                   " was killed, or exited without a word, before all had joined");
    }
    return missing;
  };
  cuda::PrepareToMeet(options.interface);  // there are no other threads yet
  absl::StatusOr<std::unique_ptr<Processes>> processes = Processes::Join(std::move(options));
  RETURN_IF_ERROR(started);
  if (!processes.ok())
    return NotJoined(placement, missing.ok() ? processes.status() : missing, report);
  if (placement.process == 0) report.Begin();
  together.processes = *std::move(processes);
  return together;
}

absl::StatusOr<std::optional<proto::Plan>> SharePlan(Processes& processes,
                                                     const proto::Plan* plan) {
  constexpr char kKey[] = "plan", kNeeded[] = "needed";
  const auto post = [&](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
    if (std::find(parts.begin(), parts.end(), kNeeded) == parts.end()) return std::string();
    std::string bytes = SerializePlan(*plan);
    if (bytes.size() > kMostJobBytes) {
      return InputError(FLAGS_plan, "is too large to be sent to processes that do not have it",
                        "copy it to all hosts");
    }
    processes.member().Post(kKey, std::move(bytes));
    return std::string();
  };
  RETURN_IF_ERROR(processes.Round("plan", plan == nullptr ? kNeeded : "", post).status());
  std::optional<proto::Plan> received;
  if (plan == nullptr) {
    ASSIGN_OR_RETURN(const std::string bytes, processes.member().Fetch(kKey));
    ASSIGN_OR_RETURN(received, ReceivePlan(bytes, FLAGS_plan + ", from process 0"));
    plan = &*received;
  }
  ASSIGN_OR_RETURN(const int ranks, CountRanks(*plan));
  RETURN_IF_ERROR(processes.Divide(ranks));
  return received;
}

absl::Status TellOthers(const JobPlacement& placement, const absl::Status& status) {
  // Process 0 sees what becomes of its children.
  if (placement.processes == 1 || placement.starts_others || IsChild()) return status;
  const absl::Status named = NameProcess(status, DescribeProcess(HostName(), placement.process));
  absl::StatusOr<MemberOptions> member = MemberFromFlags(placement);
  if (!member.ok() || !NetworkFromFlags(placement, &*member).ok()) return named;
  member->failed = named;
  member->join_seconds = kTellSeconds;
  (void)Member::Join(*std::move(member), {});
  return named;
}

void ReportFailure(const absl::Status& status, JobReport& report) {
  (void)report.End(MakeOutcome(status));  // the failure itself is reported
}

absl::Status LeaveTogether(Together together, const absl::Status& status, JobReport& report) {
  const Processes* const processes = together.processes.get();
  absl::Status outcome = status;
  if (processes != nullptr) {
    // An interruption that all have agreed upon is a good end of theirs.
    const bool good = status.ok() || (absl::IsCancelled(status) && processes->stopped());
    const absl::Status left = good ? together.processes->Leave() : together.processes->Fail(status);
    if (!left.ok()) outcome = left;
  }
  outcome = Tell(together, outcome, report);
  if (processes != nullptr && !outcome.ok() && !absl::IsCancelled(outcome)) {
    EndAtOnce(together, outcome);
  }
  return outcome;
}

LastResort::LastResort(Together& together, JobReport& report)
    : watcher_([&together, &report](const std::stop_token& stop) {
        const Member& member = together.processes->member();
        std::mutex mutex;
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        // Since it was seen to have ended: this thread may have had no processor for long.
        for (std::optional<Clock::time_point> since;;) {
          const auto now = Clock::now();
          if (!since && !member.status().ok()) since = now;
          if (since && now - *since >= kLastResort) break;
          ended.wait_for(lock, stop, std::chrono::milliseconds(50), [] { return false; });
          if (stop.stop_requested()) return;
        }
        EndAtOnce(together, Tell(together, member.status(), report));
      }) {}

}  // namespace oneflow
