#include "training/job/placement.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int64_t kMostProcesses = 1 << 20;
constexpr int kMostPort = 65535;
// Ports of coordinators: below 29400 and 29500, near which torchrun's agents and stores listen, and
// below those that Linux gives to clients (ip_local_port_range, from 32768 on; the file of each
// host may differ, and all hosts must draw the same ports).
constexpr int kFirstPort = 20000, kLastPort = 28999;
constexpr size_t kDrawnPorts = 4;
constexpr int64_t kFarFromLaunchers = 100;
constexpr char kThisHost[] = "127.0.0.1";

using Environment = absl::FunctionRef<std::optional<std::string>(const std::string&)>;

// The variables, read strictly. An empty one counts as absent.
class Variables {
 public:
  explicit Variables(Environment environment) : environment_(environment) {}

  std::optional<std::string> Text(const std::string& name) const {
    std::optional<std::string> value = environment_(name);
    return value.has_value() && !value->empty() ? value : std::nullopt;
  }

  absl::StatusOr<std::optional<int64_t>> Number(const std::string& name, int64_t least,
                                                int64_t most) const {
    const std::optional<std::string> text = Text(name);
    if (!text.has_value()) return std::nullopt;
    int64_t value = 0;
    if (!absl::SimpleAtoi(*text, &value) || value < least || value > most) {
      return InputError(name,
                        absl::StrCat("\"", *text, "\" is not a number from ", least, " to ", most),
                        "correct it, or unset it");
    }
    return value;
  }

  absl::StatusOr<int64_t> Needed(const std::string& name, int64_t least, int64_t most,
                                 const std::string& because) const {
    ASSIGN_OR_RETURN(const std::optional<int64_t> value, Number(name, least, most));
    if (!value.has_value()) {
      return InputError(name, absl::StrCat("is not set, but ", because, " is"),
                        absl::StrCat("set both, or unset ", because));
    }
    return *value;
  }

 private:
  Environment environment_;
};

std::string Address(const std::string& host, int64_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos && host[0] != '[';
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

// Ports for a run, the same in all its processes, and others for any other name. Ports made by
// counting from a launcher's would be those of its neighbours.
std::vector<int> DrawPorts(const std::string& run, int64_t port_of_launcher) {
  std::vector<int> ports;
  for (uint64_t seed = 0; ports.size() < kDrawnPorts; ++seed) {
    const uint64_t hash = XXH3_64bits_withSeed(run.data(), run.size(), seed);
    const int port = kFirstPort + static_cast<int>(hash % (kLastPort - kFirstPort + 1));
    const bool is_near = std::abs(port - port_of_launcher) < kFarFromLaunchers;
    if (!is_near && std::find(ports.begin(), ports.end(), port) == ports.end()) {
      ports.push_back(port);
    }
  }
  return ports;
}

absl::StatusOr<int64_t> FindAttempt(const Variables& variables) {
  constexpr int64_t kMost = 1'000'000'000;
  for (const char* name :
       {"ONEFLOW_ATTEMPT", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"}) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> attempt, variables.Number(name, 0, kMost));
    if (attempt.has_value()) return *attempt;
  }
  return 0;
}

// The facts that a launcher gives. No host and no ports: it gives no address.
struct Launched {
  std::string source, index_name, count_name;
  int64_t index = 0, count = 1;
  std::string host;
  std::vector<int> ports;
  std::vector<std::string> hosts;  // by index; none: not known
};

// The host of each task of a Slurm step: nodes take tasks in their order, "2(x3),1" two each of
// three nodes, and one of the fourth. None, and no error, if the variables do not say it: the hosts
// only serve messages.
std::vector<std::string> HostsOfTasks(const Variables& variables, int64_t count) {
  const std::string tasks = variables.Text("SLURM_STEP_TASKS_PER_NODE").value_or("");
  const absl::StatusOr<std::vector<std::string>> nodes =
      ExpandHosts(variables.Text("SLURM_STEP_NODELIST").value_or(""), kMostProcesses);
  if (!nodes.ok()) return {};
  std::vector<std::string> hosts;
  auto node = nodes->begin();
  for (const absl::string_view part : absl::StrSplit(tasks, ',')) {
    const std::vector<std::string> words = absl::StrSplit(part, absl::ByAnyChar("(x)"));
    int64_t each = 0, times = 1;
    if (!absl::SimpleAtoi(words[0], &each) || each < 1 ||
        (words.size() > 2 && !absl::SimpleAtoi(words[2], &times))) {
      return {};
    }
    for (; times > 0 && node != nodes->end(); --times, ++node) {
      hosts.insert(hosts.end(), std::min(each, count), *node);
    }
  }
  if (static_cast<int64_t>(hosts.size()) != count) hosts.clear();
  return hosts;
}

// Index and number of processes. A launcher of one process may name the number alone.
absl::Status ReadNumbers(const Variables& variables, const std::string& because,
                         Launched* launched) {
  const std::string &index = launched->index_name, &count = launched->count_name;
  ASSIGN_OR_RETURN(launched->count,
                   variables.Needed(count, 1, kMostProcesses, because.empty() ? index : because));
  if (launched->count == 1 && !variables.Text(index).has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(launched->index,
                   variables.Needed(index, 0, kMostProcesses, because.empty() ? count : because));
  return absl::OkStatus();
}

absl::StatusOr<Launched> FromTorchrun(const Variables& variables, bool wants_address) {
  Launched launched{.source = "torchrun", .index_name = "RANK", .count_name = "WORLD_SIZE"};
  RETURN_IF_ERROR(ReadNumbers(variables, "", &launched));
  // The variables of an address are not checked where nobody needs one.
  if (!wants_address || launched.count == 1) return launched;
  const std::optional<std::string> host = variables.Text("MASTER_ADDR");
  if (!host.has_value()) {
    return InputError("MASTER_ADDR", "is not set, but RANK is",
                      "set it, or give --coordinator=HOST:PORT");
  }
  ASSIGN_OR_RETURN(const int64_t port,
                   variables.Needed("MASTER_PORT", 1, kMostPort, "MASTER_ADDR"));
  ASSIGN_OR_RETURN(const auto local, variables.Number("LOCAL_WORLD_SIZE", 1, kMostProcesses));
  // torchrun's agent listens at MASTER_PORT itself; launchers that imitate it leave it free.
  const std::optional<std::string> run = variables.Text("TORCHELASTIC_RUN_ID");
  launched.host = local == launched.count ? kThisHost : *host;
  launched.ports = DrawPorts(absl::StrCat(*host, " ", port, " ", run.value_or("")), port);
  if (!run) launched.ports.insert(launched.ports.begin(), static_cast<int>(port));
  return launched;
}

absl::StatusOr<Launched> FromSlurm(const Variables& variables, bool wants_address) {
  Launched launched{
      .source = "Slurm", .index_name = "SLURM_PROCID", .count_name = "SLURM_STEP_NUM_TASKS"};
  if (!variables.Text(launched.count_name).has_value()) launched.count_name = "SLURM_NTASKS";
  RETURN_IF_ERROR(ReadNumbers(variables, "SLURM_STEP_NODELIST", &launched));
  launched.hosts = HostsOfTasks(variables, launched.count);
  if (!wants_address || launched.count == 1) return launched;
  // On one node they meet on loopback, which needs no keys.
  ASSIGN_OR_RETURN(const auto nodes, variables.Number("SLURM_STEP_NUM_NODES", 1, kMostProcesses));
  if (nodes == 1) {
    launched.host = kThisHost;
  } else {
    const auto first = ExpandHosts(*variables.Text("SLURM_STEP_NODELIST"), 1);
    if (!first.ok()) {
      return InputError("SLURM_STEP_NODELIST", std::string(ToStd(first.status().message())),
                        "give --coordinator=HOST:PORT");
    }
    launched.host = first->front();
  }
  constexpr int64_t kMostId = 0xffffffff;
  ASSIGN_OR_RETURN(const int64_t job, variables.Needed("SLURM_JOB_ID", 0, kMostId, "SLURM_PROCID"));
  ASSIGN_OR_RETURN(const int64_t step,
                   variables.Needed("SLURM_STEP_ID", 0, kMostId, "SLURM_PROCID"));
  launched.ports = DrawPorts(absl::StrCat(launched.host, " ", job, " ", step), 0);
  return launched;
}

absl::StatusOr<Launched> FromKubernetes(const PlacementFlags& flags, const Variables& variables) {
  Launched launched{.source = "Kubernetes",
                    .index_name = "JOB_COMPLETION_INDEX",
                    .count_name = "ONEFLOW_PROCESSES"};
  ASSIGN_OR_RETURN(const auto index, variables.Number("JOB_COMPLETION_INDEX", 0, kMostProcesses));
  launched.index = *index;
  ASSIGN_OR_RETURN(const auto count, variables.Number("ONEFLOW_PROCESSES", 1, kMostProcesses));
  if (!count.has_value() && !flags.processes.has_value()) {
    return InputError("ONEFLOW_PROCESSES", "is not set, but JOB_COMPLETION_INDEX is",
                      "set it to the number of pods, or give --processes");
  }
  launched.count = count.value_or(flags.processes.value_or(1));
  return launched;
}

// mpirun, of Open MPI, MVAPICH, or MPICH and those that come of it. It names no address.
struct MpiNames {
  const char *index, *count;
};
constexpr MpiNames kMpi[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                             {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                             {"PMI_RANK", "PMI_SIZE"}};

// That of the variables which are set; null: none are. Slurm sets those of PMI for its own tasks.
const MpiNames* FindMpi(const Variables& variables) {
  for (const MpiNames& names : kMpi) {
    const auto count = variables.Text(names.count);
    if (!count.has_value() && !variables.Text(names.index).has_value()) continue;
    const bool of_slurm = variables.Text("SLURM_STEP_NODELIST").has_value() &&
                          std::string_view(names.index) == "PMI_RANK" &&
                          count == variables.Text("SLURM_STEP_NUM_TASKS");
    if (!of_slurm) return &names;
  }
  return nullptr;
}

absl::StatusOr<Launched> FromMpi(const MpiNames& names, const Variables& variables) {
  Launched launched{.source = "mpirun", .index_name = names.index, .count_name = names.count};
  RETURN_IF_ERROR(ReadNumbers(variables, "", &launched));
  return launched;
}

// A launcher of PMIx (prterun, flux) that says no number.
absl::StatusOr<Launched> FromPmix(const PlacementFlags& flags, const Variables& variables) {
  Launched launched{.source = "PMIx", .index_name = "PMIX_RANK", .count_name = "--processes"};
  ASSIGN_OR_RETURN(const auto index, variables.Number("PMIX_RANK", 0, kMostProcesses));
  launched.index = *index;
  if (flags.processes.has_value()) {
    launched.count = *flags.processes;
    return launched;
  }
  return InputError(
      "--processes", "is not given, and PMIX_RANK says that there may be others",
      "give the number of processes and --coordinator=HOST:PORT; or --process_index=0 "
      "--processes=1 for a run of this process alone");
}

// The innermost launcher counts: torchrun, or a launcher that imitates it, may itself be started by
// srun or in a pod, once a node. Its RANK is that of the process, SLURM_PROCID that of its agent.
// One that has started a single process may be around any other. No source: there is none.
absl::StatusOr<Launched> FindLauncher(const PlacementFlags& flags, const Variables& variables,
                                      bool wants_address) {
  std::vector<absl::StatusOr<Launched>> all;  // the innermost first
  if (variables.Text("RANK").has_value() || variables.Text("WORLD_SIZE").has_value()) {
    all.push_back(FromTorchrun(variables, wants_address));
  }
  if (const MpiNames* mpi = FindMpi(variables); mpi != nullptr) {
    all.push_back(FromMpi(*mpi, variables));
  }
  // A batch script has SLURM_PROCID, too, but is no task of a step.
  if (variables.Text("SLURM_STEP_NODELIST").has_value()) {
    all.push_back(FromSlurm(variables, wants_address));
  }
  if (variables.Text("JOB_COMPLETION_INDEX").has_value()) {
    all.push_back(FromKubernetes(flags, variables));
  }
  if (all.empty() && variables.Text("PMIX_RANK").has_value()) {
    all.push_back(FromPmix(flags, variables));
  }
  for (const absl::StatusOr<Launched>& one : all) {
    if (one.ok() ? one->count > 1 : &one == &all[0]) return one;
  }
  return all.empty() ? Launched() : all[0];
}

absl::Status CheckFlags(const PlacementFlags& flags) {
  const auto check = [](const char* name, const std::optional<int64_t>& value, int64_t least) {
    if (!value.has_value() || (*value >= least && *value <= kMostProcesses)) {
      return absl::OkStatus();
    }
    return InputError(name, absl::StrCat(*value, " is out of range"),
                      absl::StrCat("use ", least, " to ", kMostProcesses));
  };
  RETURN_IF_ERROR(check("--processes", flags.processes, 1));
  RETURN_IF_ERROR(check("--process_index", flags.process_index, 0));
  if (flags.process_index.has_value() && !flags.processes.has_value()) {
    return InputError("--process_index", "does not say of how many", "give --processes, too");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view hostlist, size_t most) {
  // Texts that are left to expand, the last first: the text up to `at` has no brackets.
  std::vector<std::string> todo, hosts;
  size_t begin = 0, depth = 0;
  for (size_t at = 0; at <= hostlist.size(); ++at) {
    if (at < hostlist.size() && hostlist[at] == '[') ++depth;
    if (at < hostlist.size() && hostlist[at] == ']' && depth > 0) --depth;
    if (at < hostlist.size() && (hostlist[at] != ',' || depth > 0)) continue;
    todo.emplace_back(hostlist.substr(begin, at - begin));
    begin = at + 1;
  }
  std::reverse(todo.begin(), todo.end());
  while (!todo.empty() && hosts.size() < most) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    const size_t open = name.find('['), close = name.find(']', open);
    if (open == name.npos && !name.empty() && name.find(']') == name.npos) {
      hosts.push_back(name);
      continue;
    }
    if (open == name.npos || close == name.npos) {
      return absl::InvalidArgumentError(absl::StrCat("\"", ToAbsl(hostlist), "\" names no hosts"));
    }
    std::vector<std::string> expanded;
    for (const absl::string_view range :
         absl::StrSplit(name.substr(open + 1, close - open - 1), ',')) {
      const std::vector<std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
      int64_t first = 0, last = 0;
      if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) ||
          first < 0 || last < first) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", ToAbsl(hostlist), "\" has no numbers in brackets"));
      }
      // `most` also bounds the memory that a list such as n[0-999999999] takes.
      for (int64_t number = first; number <= last && expanded.size() < most; ++number) {
        std::string digits = absl::StrCat(number);
        digits.insert(0, ends.front().size() - std::min(ends.front().size(), digits.size()), '0');
        expanded.push_back(absl::StrCat(name.substr(0, open), digits, name.substr(close + 1)));
      }
    }
    todo.insert(todo.end(), expanded.rbegin(), expanded.rend());
  }
  return hosts;
}

absl::StatusOr<JobPlacement> FindPlacement(const PlacementFlags& flags, Environment environment) {
  const Variables variables(environment);
  JobPlacement placement;
  ASSIGN_OR_RETURN(placement.attempt, FindAttempt(variables));
  RETURN_IF_ERROR(CheckFlags(flags));
  placement.coordinator = flags.coordinator;
  if (placement.coordinator.empty()) {
    placement.coordinator = variables.Text("ONEFLOW_COORDINATOR").value_or("");
  }
  const bool wants_address = placement.coordinator.empty();

  Launched launched;
  if (flags.process_index.has_value()) {
    launched = {.source = "flags",
                .index_name = "--process_index",
                .count_name = "--processes",
                .index = *flags.process_index,
                .count = *flags.processes};
  } else {
    ASSIGN_OR_RETURN(launched, FindLauncher(flags, variables, wants_address));
  }
  // A launcher that has started one process alone (a shell, a notebook) is not this job's.
  const bool others_wanted = flags.processes.value_or(1) > 1 && !flags.process_index.has_value();
  if (launched.source.empty() || (launched.count == 1 && others_wanted)) {
    if (!flags.coordinator.empty()) {
      return InputError("--coordinator", "is given, but not which process this is",
                        "give --process_index and --processes, too");
    }
    placement.source = "alone";
    placement.coordinator.clear();
    placement.processes = static_cast<int>(flags.processes.value_or(1));
    placement.starts_others = placement.processes > 1;
    return placement;
  }

  if (flags.processes.has_value() && *flags.processes != launched.count) {
    return InputError(
        "--processes",
        absl::StrCat(*flags.processes, " contradicts ", launched.count_name, "=", launched.count),
        *flags.processes == 1
            ? "leave the flag out; or give --process_index=0, too, for a run of this process alone"
            : "leave the flag out, or start that many");
  }
  if (launched.index >= launched.count) {
    return InputError(
        launched.index_name,
        absl::StrCat(launched.index, " is not below ", launched.count_name, "=", launched.count),
        "number the processes from 0");
  }
  placement.source = launched.source;
  placement.process = static_cast<int>(launched.index);
  placement.processes = static_cast<int>(launched.count);
  placement.hosts = std::move(launched.hosts);
  if (wants_address && !launched.ports.empty()) {
    placement.coordinator = Address(launched.host, launched.ports[0]);
    placement.other_ports.assign(launched.ports.begin() + 1, launched.ports.end());
  }
  if (placement.processes > 1 && placement.coordinator.empty()) {
    const bool by_hand = launched.source == "flags";
    return InputError("--coordinator",
                      by_hand ? "is not given"
                              : absl::StrCat("is not given, and ", launched.source, " says none"),
                      "give --coordinator=HOST:PORT or set ONEFLOW_COORDINATOR, the same in all");
  }
  return placement;
}

}  // namespace oneflow
