// The words of engines that a job is asked for with: times and options of Slurm, names of
// Kubernetes and of images. A job with one that is none would fail only when the engine starts it,
// or later. All here is pure; an error names the flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// Seconds of a time as sbatch's --time takes it: "90" (minutes), "90:30", "12:00:00", "1-12",
// "1-12:30", "1-12:30:00". Nothing: no limit ("0", "UNLIMITED", "INFINITE").
absl::StatusOr<std::optional<int64_t>> ParseSlurmTime(std::string_view flag,
                                                      const std::string& text);

// The options in a value of --sbatch_option. What follows "--name=" is its value up to the next
// word that begins with "--": "--comment=a -n 3"; any other option ends before a word that begins
// with "-".
struct SbatchOption {
  std::string head;   // "--comment=a -n 3", "--account", "-A"
  std::string value;  // that is a word of its own: "mine"
};
std::vector<SbatchOption> SplitSbatchOptions(const std::string& text);

// Refuses an option of sbatch that the job's script cannot live with, or that is a flag of submit:
// "--array=0-3", "-a 0-3", "--arr=0-3".
absl::Status CheckSbatchOption(const std::string& option);

// True of an option that asks Slurm for GPUs: "--gres=gpu:8", "--gpus-per-node=8", "-G 8".
bool AsksForGpus(const std::string& option);

// Refuses what is no name of an image: "registry.example.com:5000/team/oneflow:1.2@sha256:...".
absl::Status CheckImage(std::string_view flag, const std::string& name);

// Refuses what is no name of an object of Kubernetes: a DNS subdomain by RFC 1123.
absl::Status CheckDnsName(std::string_view flag, const std::string& name);

}  // namespace oneflow
