#include "tools/oneflow/job/slurm.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

// States in which a job is over, by their full names.
constexpr std::array<std::string_view, 10> kOver = {
    "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

// The lines that have so many fields; others are no answers.
std::vector<std::vector<std::string>> Table(std::string_view text, size_t fields) {
  std::vector<std::vector<std::string>> table;
  for (const absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    table.push_back(absl::StrSplit(line, absl::MaxSplits('|', fields - 1)));
    if (table.back().size() < fields) table.pop_back();
  }
  return table;
}

// The number that a text begins with: Slurm writes "2000+" of several.
int64_t ParseNumber(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::vector<std::string> SbatchCommand(const std::string& script, const std::string& after) {
  std::vector<std::string> words = {"sbatch", "--parsable"};
  if (!after.empty()) {
    words.push_back("--dependency=afternotok:" + after);
    words.push_back("--kill-on-invalid-dep=yes");
  }
  words.push_back(script);
  return words;
}

std::string ParseSbatch(std::string_view text) {
  return std::string(text.substr(0, text.find_first_not_of("0123456789")));
}

std::vector<std::string> SqueueCommand(const std::vector<std::string>& jobs) {
  return {"squeue",       "--noheader",
          "--states=all", "--format=%i|%T|%D|%R",
          "--sort=i",     "--jobs=" + absl::StrJoin(jobs, ",")};
}

std::vector<SlurmJob> ParseSqueue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const auto& fields : Table(text, 4)) {
    jobs.push_back({fields[0], fields[1], ParseNumber(fields[2]), fields[3]});
  }
  return jobs;
}

bool IsLive(const SlurmJob& job) {
  return std::find(kOver.begin(), kOver.end(), job.state) == kOver.end();
}

std::vector<std::string> SinfoCommand(const std::string& partition) {
  std::vector<std::string> words = {"sinfo", "--noheader", "--exact", "--format=%D|%m"};
  if (!partition.empty()) words.push_back("--partition=" + partition);
  return words;
}

absl::Status CheckRoom(std::string_view sinfo, const JobSpec& spec, int64_t bytes_a_node) {
  const int64_t wanted = spec.nodes + spec.spare_nodes;
  const int64_t mib = (bytes_a_node + (1 << 20) - 1) >> 20;
  int64_t fit = 0, most = 0;
  for (const auto& fields : Table(sinfo, 2)) {
    const int64_t memory = ParseNumber(fields[1]);
    most = std::max(most, memory);
    if (memory >= mib) fit += ParseNumber(fields[0]);
  }
  if (most == 0 || fit >= wanted) return absl::OkStatus();  // sbatch says what else is wrong
  return InputError(
      absl::StrCat("--nodes=", spec.nodes, " --spare_nodes=", spec.spare_nodes),
      absl::StrCat("Slurm has ", fit, " nodes, not ", wanted, ", with the ", mib,
                   " MiB that a node's processes need for arenas; its largest has ", most, " MiB"),
      "ask for fewer nodes, name another --partition, give each node fewer ranks, or compile a "
      "plan that needs less memory");
}

}  // namespace oneflow
