// JobSpec: a job as it was asked for, and the texts that start it. All here is pure.
//
//   JobSpec spec = {.engine = Engine::kSlurm, .nodes = 4, .job_dir = "/scratch/run/job", ...};
//   RETURN_IF_ERROR(CheckSpec(spec, plan));
//   WriteFile(spec.job_dir + "/job.sh", MakeScript(spec));
//
// The script is the job's loop of attempts: it runs on the cluster without any other part of this
// project but `oneflow train`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

enum class Engine { kSlurm, kLocal, kKubernetes };
absl::StatusOr<Engine> ParseEngine(std::string_view text);
std::string_view EngineName(Engine engine);

struct JobSpec {
  Engine engine = Engine::kLocal;
  int64_t nodes = 1, spare_nodes = 0, processes_per_node = 1;
  std::string job_dir;  // absolute
  std::string folder;   // that the paths in `run` are relative to
  std::string oneflow;  // the program that processes run, by a path that nodes know
  proto::Run run;       // but for what the job says: its folders, its processes
  int64_t max_restarts = 10, max_jobs = 1, signal_seconds = 120;
  // Slurm's.
  std::string partition, time;
  int64_t cpus_per_process = 0;             // 0: the processes share whole nodes
  std::vector<std::string> sbatch_options;  // "--account=a"
  // Kubernetes'.
  std::string image, volume_claim;
  int64_t memory_bytes = 0;   // that the arenas of a process need
  int64_t gpus = 0;           // of a process
  int64_t first_attempt = 1;  // number of the first attempt: greater than those before it

  int64_t processes() const { return nodes * processes_per_node; }
  std::string name() const;  // of the job at the engine: the folder's
};

// Refuses what can never run: numbers that are out of range or do not fit together, the plan's
// ranks among them, words that mean nothing to the engine, and a network that is missing.
absl::Status CheckSpec(const JobSpec& spec, const proto::Plan& plan);

// Refuses processes on several hosts without a network that they may use, and a --trust_network
// that is none.
absl::Status CheckNetwork(const JobSpec& spec);

// GPUs that each of `processes` needs; `shared`: its ranks share one. Requires that they divide the
// ranks.
absl::StatusOr<int64_t> CountGpus(const proto::Plan& plan, int64_t processes, bool shared);

// Host memory that the arenas of a plan need in one of `groups` equal blocks of consecutive ranks:
// the largest. Requires that `groups` divides the ranks.
absl::StatusOr<int64_t> LargestHostBytes(const proto::Plan& plan, int64_t groups);

// The run of each process: as asked for, in the folders of the job.
proto::Run RunOfJob(const JobSpec& spec);

// The words of the command that each process runs.
std::vector<std::string> TrainCommand(const JobSpec& spec);

// The shell script of an engine that has one: Slurm's, the local one's.
std::string MakeScript(const JobSpec& spec);

// The manifest of a JobSet.
std::string MakeJobSet(const JobSpec& spec);

}  // namespace oneflow
