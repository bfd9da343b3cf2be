// oneflow submit: writes a job's directory and hands its script to an engine.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/cuda/backend.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/recipe/check_needs.h"
#include "tools/oneflow/cli/data_list.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/engine.h"
#include "tools/oneflow/job/job_dir.h"
#include "tools/oneflow/job/job_spec.h"
#include "tools/oneflow/job/slurm.h"
#include "training/files/durable.h"
#include "training/job/job_keys.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string Absolute(const std::string& path) {
  std::error_code error;
  std::string text = fs::absolute(path, error).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::Status CheckFiles(const std::string& flag, const std::string& list) {
  ASSIGN_OR_RETURN(const FoundData data, ExpandDataList(flag, list));
  for (const std::string& file : data.paths()) {
    if (access(file.c_str(), R_OK) == 0) continue;
    return InputError("--" + flag + "=" + file, "cannot be read", "check the path");
  }
  return absl::OkStatus();
}

absl::StatusOr<JobSpec> SpecFromFlags(const Arguments& args) {
  JobSpec spec;
  ASSIGN_OR_RETURN(spec.run, RunFromFlags(args));
  if (FLAGS_engine.empty()) {
    return InputError("--engine", "is missing", "write --engine=slurm, local or kubernetes");
  }
  if (spec.run.job_dir().empty()) {
    return InputError("--job_dir", "is missing", "name a directory that all nodes see");
  }
  ASSIGN_OR_RETURN(spec.engine, ParseEngine(FLAGS_engine));
  spec.nodes = FLAGS_nodes;
  spec.spare_nodes = FLAGS_spare_nodes;
  spec.processes_per_node = FLAGS_processes_per_node;
  spec.job_dir = Absolute(spec.run.job_dir());
  spec.folder = Absolute(".");
  std::error_code error;
  spec.oneflow = !FLAGS_oneflow.empty() ? FLAGS_oneflow
                 : spec.engine == Engine::kKubernetes
                     ? "oneflow"
                     : fs::read_symlink("/proc/self/exe", error).string();
  spec.max_restarts = FLAGS_max_restarts;
  spec.max_jobs = FLAGS_max_jobs;
  spec.signal_seconds = FLAGS_signal_seconds;
  spec.partition = FLAGS_partition;
  spec.time = FLAGS_time;
  spec.cpus_per_process = FLAGS_cpus_per_process;
  spec.sbatch_options = args.Repeated("sbatch_option");
  spec.image = FLAGS_image;
  spec.volume_claim = FLAGS_volume_claim;
  return spec;
}

// Flags that not every engine obeys.
absl::Status CheckEngineFlags(const Arguments& args, Engine engine) {
  struct {
    const char* flag;
    std::vector<Engine> engines;
  } const kFlags[] = {{"partition", {Engine::kSlurm}},
                      {"time", {Engine::kSlurm}},
                      {"sbatch_option", {Engine::kSlurm}},
                      {"max_jobs", {Engine::kSlurm}},
                      {"cpus_per_process", {Engine::kSlurm, Engine::kKubernetes}},
                      {"image", {Engine::kKubernetes}},
                      {"volume_claim", {Engine::kKubernetes}}};
  for (const auto& [flag, engines] : kFlags) {
    if (!args.Given(flag) || std::ranges::count(engines, engine) > 0) continue;
    return InputError(
        absl::StrCat("--", flag),
        absl::StrCat("acts on nothing with --engine=", ToAbsl(EngineName(engine))),
        absl::StrCat("leave it out, or use --engine=", ToAbsl(EngineName(engines[0]))));
  }
  return absl::OkStatus();
}

// True if a shell here finds the program.
bool CanBeRun(const std::string& program) {
  if (program.find('/') != program.npos) return access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Refuses a program that cannot run, as far as it is known here: a local one, and this one. Of
// nodes it is not known.
absl::Status CheckProgram(const JobSpec& spec, const proto::Plan& plan) {
  if (spec.engine != Engine::kKubernetes && !CanBeRun(spec.oneflow)) {
    if (spec.engine == Engine::kLocal) {
      return InputError("--oneflow=" + spec.oneflow, "is no program that can be run",
                        "check the path and its permissions");
    }
    PrintNotice("warning: --oneflow=" + spec.oneflow +
                " is no program of this host: the nodes must have it");
  }
  const bool is_this = FLAGS_oneflow.empty() && spec.engine != Engine::kKubernetes;
  if (!is_this || plan.device_kind() != proto::CUDA || cuda::IsBuiltIn()) return absl::OkStatus();
  return InputError(FLAGS_plan.empty() ? "--device=cuda" : "--plan=" + FLAGS_plan,
                    "is for GPUs, and this oneflow was built without CUDA",
                    "build it with --config=cuda, or name one that was by --oneflow=FILE");
}

// One more than the number of any attempt so far.
int64_t NextAttempt(const JobDir& dir) {
  int64_t newest = 0;
  for (const int64_t attempt : dir.Attempts()) newest = std::max(newest, attempt);
  for (const char* name : {"outcome.json", "status.json"}) {
    const auto json = dir.Json(name);
    if (json && json->contains("attempt") && json->at("attempt").is_number_integer()) {
      newest = std::max(newest, json->at("attempt").get<int64_t>());
    }
  }
  return newest + 1;
}

absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? WriteError(path, "cannot be removed", error.value()) : absl::OkStatus();
}

// Attempts of an earlier submission do not count as fruitless ones of this.
absl::Status BeginAttempts(const std::string& path) {
  std::ofstream file(path, std::ios::app);
  file << "- submitted " << UtcText(std::time(nullptr)) << "\n";
  file.close();
  return file ? absl::OkStatus() : WriteError(path, "cannot be written", errno);
}

// The plan as it was given, byte by byte; or as it was compiled, and its graph.
absl::Status WritePlanFiles(const JobDir& dir, const proto::Plan& plan) {
  if (FLAGS_plan.empty()) {
    RETURN_IF_ERROR(WritePlan(plan, dir.File("job.plan")));
    return WriteFile(dir.File("graph.textproto"), GraphFileText(plan.graph()));
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(FLAGS_plan));
  return WriteFile(dir.File("job.plan"), bytes);
}

absl::Status WriteJob(const JobDir& dir, const JobSpec& spec, const proto::Plan& plan) {
  RETURN_IF_ERROR(CreateFolders(dir.File("logs")));
  RETURN_IF_ERROR(Remove(dir.File("cancel")));
  RETURN_IF_ERROR(Remove(dir.File("final.json")));
  RETURN_IF_ERROR(dir.WriteJobs({}));
  RETURN_IF_ERROR(BeginAttempts(dir.File("attempts")));
  RETURN_IF_ERROR(WritePlanFiles(dir, plan));
  // Processes of one host, which one of them starts, need none.
  if (spec.engine != Engine::kLocal && spec.processes() > 1 && !dir.Has("keys")) {
    RETURN_IF_ERROR(MakeJobKeys(dir.File("keys")));
  }
  if (spec.engine == Engine::kKubernetes) {
    RETURN_IF_ERROR(WriteFile(dir.File("jobset.yaml"), MakeJobSet(spec)));
  } else {
    RETURN_IF_ERROR(WriteFile(dir.File("job.sh"), MakeScript(spec)));
  }
  return dir.WriteRecord(spec);
}

absl::StatusOr<std::string> AskSlurm(const std::vector<std::string>& words) {
  const absl::StatusOr<std::string> output = RunForOutput(words);
  if (!absl::IsNotFound(output.status())) return output;
  return InputError("--engine=slurm", ToStd(output.status().message()),
                    "run it where Slurm's commands are, or use another engine");
}

// The id of the job that sbatch makes. Slurm has answered `sinfo` before: where sbatch refuses, its
// own words say what in the flags is wrong.
absl::StatusOr<std::string> Sbatch(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const CommandResult result, RunCommand(words));
  const std::string id = ParseSbatch(result.out);
  if (result.code == 0 && !id.empty()) return id;
  const absl::Status failed = CommandError(words, result);
  const bool silent = absl::StrContains(failed.message(), "ontact slurm controller") ||
                      absl::StrContains(failed.message(), "timed out");
  if (!result.exited || silent) return failed;  // perhaps not the next time
  return InputError("--engine=slurm", ToStd(failed.message()),
                    "correct the flag or the --sbatch_option that it names; --dry_run prints the "
                    "script");
}

void TakeBack(const std::vector<std::string>& jobs) {
  for (const std::string& job : jobs) (void)RunCommand({"scancel", job});
}

// Jobs that are queued already are taken back where a later one cannot be queued.
absl::StatusOr<std::vector<std::string>> StartSlurm(const JobDir& dir, const JobSpec& spec) {
  std::vector<std::string> jobs;
  while (static_cast<int64_t>(jobs.size()) < spec.max_jobs) {
    const absl::StatusOr<std::string> id =
        Sbatch(SbatchCommand(dir.File("job.sh"), jobs.empty() ? "" : jobs.back()));
    if (!id.ok()) {
      TakeBack(jobs);
      return id.status();
    }
    jobs.push_back(*id);
  }
  return jobs;
}

absl::StatusOr<std::vector<std::string>> Start(const JobDir& dir, const JobSpec& spec,
                                               const JobLock& lock) {
  switch (spec.engine) {
    case Engine::kSlurm: return StartSlurm(dir, spec);
    case Engine::kLocal: {
      ASSIGN_OR_RETURN(const pid_t pid, StartDetached({"bash", dir.File("job.sh")},
                                                      dir.File("logs/local.log"), lock.fd()));
      return std::vector<std::string>{absl::StrCat(pid)};
    }
    case Engine::kKubernetes: return std::vector<std::string>();
  }
  return std::vector<std::string>();
}

// Writes and starts the job; `jobs` of the directory are its own then.
absl::StatusOr<std::vector<std::string>> WriteAndStart(const JobDir& dir, const JobSpec& spec,
                                                       const proto::Plan& plan,
                                                       const JobLock& lock) {
  RETURN_IF_ERROR(WriteJob(dir, spec, plan));
  ASSIGN_OR_RETURN(std::vector<std::string> jobs, Start(dir, spec, lock));
  const absl::Status written = dir.WriteJobs(jobs);
  if (written.ok()) return jobs;
  // Nobody could cancel jobs that the directory does not know.
  if (spec.engine == Engine::kSlurm) TakeBack(jobs);
  return written;
}

// The same. Where no job starts, the files of the directory are what they were: those of an earlier
// job with its end, or none.
absl::StatusOr<std::vector<std::string>> ReplaceJob(const JobDir& dir, const JobSpec& spec,
                                                    const proto::Plan& plan, const JobLock& lock) {
  std::vector<std::pair<std::string, absl::StatusOr<std::string>>> earlier;
  for (const char* name : {"final.json", "cancel", "jobs", "attempts", "job.plan",
                           "graph.textproto", "jobset.yaml", "job.sh", "job.json"}) {
    earlier.emplace_back(dir.File(name), ReadFile(dir.File(name)));
  }
  absl::StatusOr<std::vector<std::string>> jobs = WriteAndStart(dir, spec, plan, lock);
  if (!jobs.ok()) {
    for (const auto& [path, bytes] : earlier) {
      (void)(bytes.ok() ? WriteFile(path, *bytes) : Remove(path));
    }
  }
  return jobs;
}

absl::Status Tell(const JobSpec& spec, const std::vector<std::string>& jobs) {
  const std::string text =
      spec.engine == Engine::kKubernetes
          ? "start it with: kubectl apply -f " + ShellQuoted(spec.job_dir + "/jobset.yaml") + "\n"
          : absl::StrCat(spec.engine == Engine::kSlurm ? "Slurm's job " : "process ",
                         absl::StrJoin(jobs, ", "),
                         ": see `oneflow status --job_dir=", ShellQuoted(spec.job_dir), "`\n");
  return Print(text,
               {{"engine", EngineName(spec.engine)}, {"job_dir", spec.job_dir}, {"jobs", jobs}});
}

absl::Status Submit(const Arguments& args) {
  ASSIGN_OR_RETURN(JobSpec spec, SpecFromFlags(args));
  RETURN_IF_ERROR(CheckEngineFlags(args, spec.engine));
  const JobDir dir(spec.job_dir);
  const proto::Run& run = spec.run;
  if (run.data().empty()) return InputError("--data", "is missing", "write --data=text.txt");
  RETURN_IF_ERROR(CheckNeeds(RunRows(), RunOfJob(spec)));
  RETURN_IF_ERROR(CheckFiles("data", run.data()));
  if (run.has_eval_data()) RETURN_IF_ERROR(CheckFiles("eval_data", run.eval_data()));
  ASSIGN_OR_RETURN(const proto::Plan plan, PlanFromFlags(args));
  RETURN_IF_ERROR(CheckExact(plan.graph(), "job"));
  RETURN_IF_ERROR(CheckSpec(spec, plan));
  RETURN_IF_ERROR(CheckProgram(spec, plan));
  ASSIGN_OR_RETURN(spec.gpus, CountGpus(plan, spec.processes(), run.logical_devices()));
  ASSIGN_OR_RETURN(spec.memory_bytes, LargestHostBytes(plan, spec.processes()));
  spec.first_attempt = NextAttempt(dir);
  if (!run.has_checkpoint_every()) {
    std::fputs("oneflow: warning: without --checkpoint_every a loss costs all steps so far\n",
               stderr);
  }
  if (FLAGS_dry_run) {
    return Print(spec.engine == Engine::kKubernetes ? MakeJobSet(spec) : MakeScript(spec));
  }
  if (spec.engine == Engine::kSlurm) {
    ASSIGN_OR_RETURN(const std::string sinfo, AskSlurm(SinfoCommand(spec.partition)));
    ASSIGN_OR_RETURN(const int64_t bytes, LargestHostBytes(plan, spec.nodes));
    RETURN_IF_ERROR(CheckRoom(sinfo, spec, bytes));
  }
  RETURN_IF_ERROR(CreateFolders(spec.job_dir));
  ASSIGN_OR_RETURN(const std::optional<JobLock> lock, JobLock::Take(dir));
  if (!lock) {
    return InputError("--job_dir=" + spec.job_dir, "belongs to a job that runs",
                      "give another directory, or `oneflow cancel` that job first");
  }
  RETURN_IF_ERROR(CheckNoLiveJob(dir));
  // Keys of an earlier submission are kept; half of them would fail each attempt.
  if (dir.Has("keys")) RETURN_IF_ERROR(ReadJobKeys(dir.File("keys")).status());
  ASSIGN_OR_RETURN(const std::vector<std::string> jobs, ReplaceJob(dir, spec, plan, *lock));
  return Tell(spec, jobs);
}

}  // namespace

Verb SubmitVerb() {
  return {verbs::kSubmit, "submit a training job to Slurm, to this host or to Kubernetes",
          "oneflow submit --engine=slurm --nodes=4 --spare_nodes=1 --job_dir=run/job "
          "--plan=gpt.plan --data=text.txt --steps=2000 --checkpoint_every=100\n"
          "oneflow submit --engine=local --job_dir=run/job --plan=gpt.plan --data=text.txt "
          "--steps=2000 --checkpoint_every=100\n",
          Submit};
}

}  // namespace oneflow
