#include "training/trainer/processes/launch.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/device/host_limits.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/job/job.h"
#include "training/trainer/processes/cores_of_host.h"

namespace oneflow {
namespace {

constexpr char kChild[] = "ONEFLOW_CHILD_OF_PROCESS_0";
constexpr int kNotStarted = 127;

absl::StatusOr<std::vector<std::string>> OwnArguments() {
  ASSIGN_OR_RETURN(const std::string all, ReadFile("/proc/self/cmdline"));
  std::vector<std::string> arguments = absl::StrSplit(all, '\0');
  arguments.pop_back();  // behind the last zero
  return arguments;
}

// Calls only what is safe between fork and exec in a program with threads.
[[noreturn]] void Become(char* const* arguments, char* const* environment, const cpu_set_t& cores) {
  sched_setaffinity(0, sizeof(cores), &cores);
  // Process 0 blocks and ignores signals for itself alone.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  execve("/proc/self/exe", arguments, environment);
  _exit(kNotStarted);
}

cpu_set_t MakeCpuSet(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return set;
}

// The arguments of process `index` of `processes`: those of process 0 (as in main, with the
// program's name) without the process index of this one, and with its own.
std::vector<std::string> ChildArguments(const std::vector<std::string>& own, int index,
                                        int processes, const std::string& coordinator) {
  std::vector<std::string> arguments;
  bool skip = false;
  for (const std::string& argument : own) {
    if (std::exchange(skip, false)) continue;
    const std::string_view name =
        absl::StartsWith(argument, "--") ? std::string_view(argument).substr(2) : "";
    const std::string_view word = name.substr(0, name.find('='));
    std::string flag(word);
    std::replace(flag.begin(), flag.end(), '-', '_');  // verb.cc reads it so, too
    if (flag == "processes" || flag == "coordinator" || flag == "process_index") {
      skip = word == name;  // its value comes as the next argument
      continue;
    }
    arguments.push_back(argument);
  }
  arguments.push_back(absl::StrCat("--processes=", processes));
  arguments.push_back(absl::StrCat("--process_index=", index));
  arguments.push_back(absl::StrCat("--coordinator=", coordinator));
  return arguments;
}

}  // namespace

std::vector<int> CoresOfThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void UseCores(const std::vector<int>& cores) {
  const cpu_set_t set = MakeCpuSet(cores);
  sched_setaffinity(0, sizeof(set), &set);
}

// Process 0 gives it the variable, with its own number.
bool IsChild() { return std::getenv(kChild) != nullptr; }

bool IsParentAlive() { return !IsChild() || absl::StrCat(getppid()) == std::getenv(kChild); }

absl::StatusOr<Children> Children::Start(int processes, const std::string& coordinator) {
  ASSIGN_OR_RETURN(const std::vector<std::string> own, OwnArguments());
  const std::vector<int> cores = CoresOfThread();
  // Its own environment stays as it is: threads of libraries may read it.
  std::string parent = absl::StrCat(kChild, "=", getpid());
  std::vector<char*> environment = {parent.data()};
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  Children children({});
  for (int index = 1; index < processes; ++index) {
    std::vector<std::string> arguments = ChildArguments(own, index, processes, coordinator);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const cpu_set_t share = MakeCpuSet(ShareOfCores(cores, index, processes));
    const pid_t pid = fork();
    if (pid == 0) Become(pointers.data(), environment.data(), share);
    if (pid < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("process ", index,
                                                       " cannot be started: ", std::strerror(errno),
                                                       "; ", DescribeThreadLimit()));
    }
    children.pids_.push_back(pid);
  }
  UseCores(ShareOfCores(cores, 0, processes));
  return children;
}

absl::Status Children::CheckJoining() {
  for (size_t i = 0; i < pids_.size(); ++i) {
    int status = 0;
    if (pids_[i] == 0 || waitpid(pids_[i], &status, WNOHANG) == 0) continue;
    pids_[i] = 0;
    const ProcessName who{HostName(), static_cast<int>(i) + 1, {}};
    const int code = WEXITSTATUS(status);
    const std::string what = WIFSIGNALED(status)
                                 ? absl::StrCat(" was ended by signal ", WTERMSIG(status))
                             : code == kNotStarted ? " could not be started"
                                                   : absl::StrCat(" ended with exit code ", code);
    return MakeFailure(who,
                       code == 2 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kAborted,
                       what + " before it had joined");
  }
  return absl::OkStatus();
}

void Children::Await(std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::erase(pids_, 0);
  while (!pids_.empty()) {
    std::erase_if(pids_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
    if (std::chrono::steady_clock::now() > end) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Children::~Children() {
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace oneflow
