#include "tools/oneflow/join.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/job/job_keys.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/flags.h"

namespace oneflow {
namespace {

constexpr std::chrono::seconds kPatience{10}, kPatienceWithLost{2};

std::string Digest(std::span<const std::byte> bytes) {
  return absl::StrCat(absl::Hex(XXH3_64bits(bytes.data(), bytes.size()), absl::kZeroPad16));
}

// How many tokens, and the first and last of them.
std::string DigestOf(const TokenDataset& data) {
  constexpr int64_t kMost = 1 << 16;
  const int64_t n = std::min(data.size(), kMost);
  std::vector<int32_t> ends(2 * n);
  data.Read(0, std::span(ends).first(n));
  data.Read(data.size() - n, std::span(ends).last(n));
  return absl::StrCat(data.size(), " tokens ", Digest(std::as_bytes(std::span(ends))));
}

// A secret that the children read in their environment.
std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&token, absl::Hex(random(), absl::kZeroPad8));
  return token;
}

// Those that submit has left in the job's directory.
absl::StatusOr<std::optional<JobKeys>> KeysOfJob() {
  const std::string folder = FLAGS_job_dir + "/keys";
  std::error_code error;
  if (FLAGS_job_dir.empty() || !std::filesystem::exists(folder, error)) return std::nullopt;
  ASSIGN_OR_RETURN(JobKeys keys, ReadJobKeys(folder));
  return std::optional<JobKeys>(std::move(keys));
}

}  // namespace

absl::StatusOr<JobPlace> PlaceFromFlags() {
  PlaceFlags flags;
  flags.coordinator = FLAGS_coordinator;
  if (FLAGS_process_index >= 0) flags.process_index = FLAGS_process_index;
  if (FLAGS_processes != 0) flags.processes = FLAGS_processes;
  return FindPlace(flags, [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

absl::StatusOr<std::vector<JoinFact>> FactsOfRun(const proto::Plan& plan,
                                                 const proto::Optimizer& optimizer,
                                                 const TokenSplit& data, const std::string& isa) {
  ASSIGN_OR_RETURN(const std::string program, ReadFile("/proc/self/exe"));
  std::vector<JoinFact> facts = {
      {"plan", plan.fingerprint()},
      {"program", Digest(std::as_bytes(std::span(program)))},
      {"--instruction_set", isa},
      {"--data", DigestOf(data.train)},
      {"validation data", data.validation.size() > 0 ? DigestOf(data.validation) : "none"},
      {"optimizer", optimizer.ShortDebugString()},
      {"--steps", absl::StrCat(FLAGS_steps)},
      {"--seed", absl::StrCat(FLAGS_seed)},
      {"--eval_every", absl::StrCat(FLAGS_eval_every)},
      {"--eval_batches", absl::StrCat(FLAGS_eval_batches)},
      {"--checkpoint_every", absl::StrCat(FLAGS_checkpoint_every)},
      {"--checkpoint_dir", FLAGS_checkpoint_dir},
      {"--resume", FLAGS_resume},
      {"--trace", FLAGS_trace.empty() ? "none" : "given"},
  };
  return facts;
}

absl::StatusOr<Together> JoinFromFlags(const JobPlace& place, const proto::Plan& plan,
                                       std::vector<JoinFact> facts, JobWatch* watch) {
  Together together;
  if (place.processes == 1) return together;
  ProcessesOptions options;
  ASSIGN_OR_RETURN(const StageMesh mesh, StageMeshOf(plan));
  options.ranks = mesh.ranks();
  options.interface = FLAGS_interface;
  options.on_note = [watch](int process, const std::string& name, const std::string& value) {
    watch->Note(process, name, value);
  };
  options.member.coordinator = place.starts_others ? "127.0.0.1:0" : place.coordinator;
  options.member.process = place.process;
  options.member.processes = place.processes;
  options.member.attempt = place.attempt;
  const int each = options.ranks / place.processes, first = place.process * each;
  options.member.ranks = each == 1 ? absl::StrCat("rank ", first)
                                   : absl::StrCat("ranks ", first, " to ", first + each - 1);
  options.member.facts = std::move(facts);
  const char* token = std::getenv("ONEFLOW_JOB_TOKEN");
  options.member.token = token == nullptr ? "" : token;
  if (!place.starts_others) {
    ASSIGN_OR_RETURN(options.member.keys, KeysOfJob());
  }
  absl::Status started;
  if (place.starts_others) {
    options.member.token = NewToken();
    setenv("ONEFLOW_JOB_TOKEN", options.member.token.c_str(), 1);
    options.on_listening = [&](int port) {
      absl::StatusOr<Children> children =
          Children::Start(place.processes, absl::StrCat("127.0.0.1:", port));
      started = children.status();
      if (children.ok()) together.children.emplace(*std::move(children));
    };
  }
  absl::StatusOr<std::unique_ptr<Processes>> processes = Processes::Join(std::move(options));
  RETURN_IF_ERROR(started);
  ASSIGN_OR_RETURN(together.processes, std::move(processes));
  return together;
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
  const std::string sentence(outcome.message());
  const NamedProcess named = ProcessNamedIn(sentence);
  JobOutcome end{.code = ExitCode(outcome), .host = named.host, .sentence = sentence};
  if (outcome.ok()) end.sentence = "done";
  if (processes != nullptr && named.process >= 0 && named.process < processes->count()) {
    end.rank = named.process * processes->ranks().size();
  }
  end.step = processes == nullptr ? 0 : processes->steps_done();
  if (const absl::Status told = report.End(end); outcome.ok()) outcome = told;
  // After a failure one of them may never end by itself.
  if (together.children) together.children->Await(outcome.ok() ? kPatience : kPatienceWithLost);
  if (processes == nullptr) return outcome;
  // One process tells it: the first, or, where that is the one which is gone, the next.
  return processes->index() == (named.process == 0 ? 1 : 0) ? outcome : Quiet(outcome);
}

}  // namespace oneflow
