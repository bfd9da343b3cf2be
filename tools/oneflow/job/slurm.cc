#include "tools/oneflow/job/slurm.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// States in which a job is over, by their full names.
constexpr std::array<std::string_view, 10> kOver = {
    "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '|');) fields.push_back(field);
  return fields;
}

// Lines of at least `least` fields; others are no answers.
std::vector<std::vector<std::string>> Table(std::string_view text, size_t least) {
  std::vector<std::vector<std::string>> table;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> fields = Split(line);
    if (fields.size() >= least) table.push_back(std::move(fields));
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

absl::StatusOr<std::string> ParseSbatch(std::string_view text) {
  const std::string id(text.substr(0, text.find_first_not_of("0123456789")));
  if (!id.empty()) return id;
  return absl::UnavailableError(
      absl::StrCat("sbatch: prints no job's number: ", std::string(text)));
}

std::vector<std::string> SqueueCommand(const std::vector<std::string>& jobs) {
  std::string list;
  for (const std::string& job : jobs) absl::StrAppend(&list, list.empty() ? "" : ",", job);
  return {"squeue", "--noheader", "--states=all", "--format=%i|%T|%D|%R", "--jobs=" + list};
}

std::vector<SlurmJob> ParseSqueue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const auto& fields : Table(text, 3)) {
    jobs.push_back(
        {fields[0], fields[1], ParseNumber(fields[2]), fields.size() > 3 ? fields[3] : ""});
  }
  return jobs;
}

bool IsLive(const SlurmJob& job) {
  return std::find(kOver.begin(), kOver.end(), job.state) == kOver.end();
}

std::vector<std::string> SinfoCommand() {
  return {"sinfo", "--noheader", "--exact", "--format=%R|%P|%D|%m"};
}

std::vector<NodeGroup> ParseSinfo(std::string_view text) {
  std::vector<NodeGroup> groups;
  for (const auto& fields : Table(text, 4)) {
    groups.push_back(
        {fields[0], fields[1].ends_with('*'), ParseNumber(fields[2]), ParseNumber(fields[3])});
  }
  return groups;
}

absl::Status CheckRoom(const std::vector<NodeGroup>& groups, const JobSpec& spec,
                       int64_t bytes_a_node) {
  const int64_t wanted = spec.nodes + spec.spare_nodes;
  const int64_t mib = (bytes_a_node + (1 << 20) - 1) >> 20;
  std::string partition = spec.partition, names;
  int64_t nodes = 0, fit = 0, most = 0;
  for (const NodeGroup& group : groups) {
    const std::string name = ", " + group.partition;
    if (names.find(name) == names.npos) names += name;
    if (partition.empty() && group.is_default) partition = group.partition;
  }
  for (const NodeGroup& group : groups) {
    if (group.partition != partition) continue;
    nodes += group.nodes;
    most = std::max(most, group.memory_mib);
    if (group.memory_mib >= mib) fit += group.nodes;
  }
  if (partition.empty()) return absl::OkStatus();  // Without a default one sbatch asks for it.
  const std::string where = "partition " + partition;
  if (nodes == 0) {
    return InputError("--partition=" + partition, "Slurm has no such partition, or no node in it",
                      names.empty() ? "" : "it has " + names.substr(2));
  }
  if (nodes < wanted) {
    return InputError(absl::StrCat("--nodes=", spec.nodes, " --spare_nodes=", spec.spare_nodes),
                      absl::StrCat(where, " has ", nodes, " nodes, not ", wanted),
                      "ask for fewer nodes, or name another --partition");
  }
  if (fit < wanted) {
    return InputError(
        absl::StrCat("--nodes=", spec.nodes, " --spare_nodes=", spec.spare_nodes),
        absl::StrCat("a node's processes need ", mib, " MiB for arenas, and ", where, " has ", fit,
                     " nodes of so much memory; its largest has ", most, " MiB"),
        "ask for more nodes with fewer ranks each, or compile a plan that needs less memory");
  }
  return absl::OkStatus();
}

}  // namespace oneflow
