#include "actor_runtime/device/host_limits.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> ReadLines(const std::string& path) {
  return absl::StrSplit(ReadAll(path), '\n', absl::SkipEmpty());
}

// Nothing if the file is not there or says "max", or -1.
std::optional<int64_t> ReadLimit(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ReadAll(path), &number) || number < 0) return std::nullopt;
  return number;
}

// The number behind a word at the begin of a line: "oom_kill 3", "MemTotal:  1024 kB".
int64_t ReadField(const std::string& path, const std::string& name, int64_t missing = 0) {
  for (const std::string& line : ReadLines(path)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t number = 0;
    if (words.size() >= 2 && words[0] == name && absl::SimpleAtoi(words[1], &number)) {
      return number;
    }
  }
  return missing;
}

int64_t ReadMemInfo(const std::string& root, const std::string& name, int64_t missing) {
  const int64_t kib = ReadField(root + "/proc/meminfo", name, -1);
  return kib < 0 ? missing : kib * 1024;
}

std::optional<int64_t> ProcessLimit(decltype(RLIMIT_AS) resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

// A control group that holds this process.
struct ControlGroup {
  std::string folder;    // without the root
  bool unified = false;  // version 2
};

// Those of version 1 with a controller, and those of version 2, each from the process's own group
// upwards to the outermost one that can be seen here.
std::vector<ControlGroup> FindGroups(const std::string& root, const std::string& controller) {
  std::vector<ControlGroup> groups;
  const std::vector<std::string> mounts = ReadLines(root + "/proc/self/mountinfo");
  for (const std::string& line : ReadLines(root + "/proc/self/cgroup")) {
    // "4:memory:/path"; "0::/path" of version 2.
    const std::vector<std::string> of_line = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (of_line.size() != 3) continue;
    const auto has = [&](const std::string& list) {
      const std::vector<std::string> names = absl::StrSplit(list, ',');
      return std::find(names.begin(), names.end(), controller) != names.end();
    };
    const bool unified = of_line[1].empty();
    if (!unified && !has(of_line[1])) continue;
    for (const std::string& mount : mounts) {
      // "35 31 0:32 ROOT POINT options - cgroup cgroup rw,memory"
      const std::vector<std::string> sides = absl::StrSplit(mount, absl::MaxSplits(" - ", 1));
      if (sides.size() != 2) continue;
      const std::vector<std::string> left = absl::StrSplit(sides[0], ' ');
      const std::vector<std::string> right = absl::StrSplit(sides[1], ' ');
      if (left.size() < 5 || right.size() < 3) continue;
      if (unified ? right[0] != "cgroup2" : right[0] != "cgroup" || !has(right[2])) continue;
      // A container sees a part of the tree, whose root may not be named in the path.
      const std::string top = left[3] == "/" ? "" : left[3];
      std::string below;
      if (of_line[2] == top || absl::StartsWith(of_line[2], top + "/")) {
        below = of_line[2].substr(top.size());
      }
      if (absl::StrContains(below, "/..")) below.clear();
      while (absl::EndsWith(below, "/")) below.pop_back();
      for (;; below.erase(below.rfind('/'))) {
        groups.push_back({left[4] + below, unified});
        if (below.empty()) break;
      }
      break;
    }
  }
  return groups;
}

struct MemoryLimit {
  int64_t bytes = kUnlimited;
  std::string whose;  // "this host has", "its control group allows"
};

std::string LimitText(const MemoryLimit& limit) {
  return absl::StrCat(limit.whose, " ", BytesText(limit.bytes));
}

void Lower(MemoryLimit* limit, int64_t bytes, const std::string& whose) {
  if (bytes < limit->bytes) *limit = {bytes, whose};
}

std::string GroupAllows(const std::string& file) {
  return absl::StrCat("the control group (", file, ") allows");
}

int64_t Plus(int64_t a, int64_t b) { return a > kUnlimited - b ? kUnlimited : a + b; }

// With swap.
MemoryLimit FindMemoryLimit(const std::string& root) {
  const int64_t swap = ReadMemInfo(root, "SwapTotal:", 0);
  MemoryLimit least{Plus(ReadMemInfo(root, "MemTotal:", kUnlimited), swap),
                    "the host's memory and swap are"};
  for (const ControlGroup& group : FindGroups(root, "memory")) {
    const std::string file =
        group.folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes");
    const std::string folder = root + group.folder;
    if (const auto most = ReadLimit(root + file)) {
      const int64_t own =
          group.unified ? ReadLimit(folder + "/memory.swap.max").value_or(swap) : swap;
      Lower(&least, Plus(*most, std::min(own, swap)), GroupAllows(file));
    }
    const std::string with_swap = "/memory.memsw.limit_in_bytes";
    if (const auto most = ReadLimit(folder + with_swap)) {
      Lower(&least, *most, GroupAllows(group.folder + with_swap));
    }
  }
  return least;
}

// Without swapping.
MemoryLimit FindFreeMemory(const std::string& root) {
  MemoryLimit least{ReadMemInfo(root, "MemAvailable:", kUnlimited), "this host has"};
  for (const ControlGroup& group : FindGroups(root, "memory")) {
    const std::string folder = root + group.folder;
    const bool v2 = group.unified;
    const auto most = ReadLimit(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = ReadLimit(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!most || !used) continue;
    const int64_t cached =
        ReadField(folder + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file");
    const int64_t free = std::max<int64_t>(0, *most - *used + std::min(cached, *used));
    Lower(&least, free, absl::StrCat("the control group ", group.folder, " has"));
  }
  return least;
}

// Bytes of the address space of this process, and those of them that it may write to alone.
struct Mapped {
  int64_t all = 0, data = 0;
};
Mapped FindMapped() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  file >> all >> resident >> shared >> text >> library >> data;
  return {all * sysconf(_SC_PAGESIZE), data * sysconf(_SC_PAGESIZE)};
}

constexpr char kLess[] = "give it more, or use a plan that takes less";

absl::Status CheckAddressSpace(int64_t bytes) {
  const Mapped mapped = FindMapped();
  struct Bound {
    std::optional<int64_t> most;
    int64_t used;
    const char* flag;
  };
  for (const Bound& bound : {Bound{ProcessLimit(RLIMIT_AS), mapped.all, "-v"},
                             Bound{ProcessLimit(RLIMIT_DATA), mapped.data, "-d"}}) {
    if (!bound.most || bytes <= *bound.most - bound.used) continue;
    return InputError(
        "plan",
        absl::StrCat("takes ", BytesText(bytes), " of this process, which has mapped ",
                     BytesText(bound.used), " besides, and `ulimit ", bound.flag, "` allows ",
                     BytesText(*bound.most)),
        kLess);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMemory(const PlannedMemory& planned,
                         const std::function<void(const std::string& warning)>& notice,
                         const std::string& root) {
  const std::string takes =
      absl::StrCat("takes ", BytesText(planned.of_host), " of this host's memory");
  const MemoryLimit most = FindMemoryLimit(root);
  if (planned.of_host > most.bytes) {
    return InputError("plan", absl::StrCat(takes, ", and ", LimitText(most)), kLess);
  }
  RETURN_IF_ERROR(CheckAddressSpace(planned.of_process));
  const MemoryLimit free = FindFreeMemory(root);
  if (notice && planned.of_host > free.bytes) {
    notice(absl::StrCat("warning: the plan ", takes, ", and ", LimitText(free),
                        " free at this time: it may swap, or the kernel may kill it"));
  }
  return absl::OkStatus();
}

std::string DescribeThreadLimit(const std::string& root) {
  for (const ControlGroup& group : FindGroups(root, "pids")) {
    const std::string file = group.folder + "/pids.max";
    const auto most = ReadLimit(root + file);
    if (most && ReadLimit(root + group.folder + "/pids.current").value_or(0) >= *most) {
      return absl::StrCat("the control group (", file, ") allows ", *most, ", and has them");
    }
  }
  constexpr int64_t kStack = int64_t{8} << 20;
  const auto space = ProcessLimit(RLIMIT_AS);
  const auto stack = ProcessLimit(RLIMIT_STACK).value_or(kStack);
  if (space && FindMapped().all + stack > *space) {
    return absl::StrCat("`ulimit -v` allows ", BytesText(*space),
                        ", and each thread has a stack of ", BytesText(stack));
  }
  if (const auto most = ProcessLimit(RLIMIT_NPROC)) {
    return absl::StrCat("`ulimit -u` allows this user ", *most, " threads and processes");
  }
  return absl::StrCat("kernel.threads-max is ",
                      ReadLimit(root + "/proc/sys/kernel/threads-max").value_or(0));
}

std::string DescribeAddressSpace() {
  const auto most = ProcessLimit(RLIMIT_AS);
  return most ? absl::StrCat("; `ulimit -v` allows ", BytesText(*most), ", and ",
                             BytesText(FindMapped().all), " are mapped")
              : "";
}

absl::Status CheckThreads(int more, const std::string& root) {
  std::mutex gate;
  std::unique_lock closed(gate);
  std::vector<pthread_t> threads;
  const auto wait = [](void* at) -> void* {
    const std::lock_guard open(*static_cast<std::mutex*>(at));
    return nullptr;
  };
  pthread_t thread;
  while (std::ssize(threads) < more && pthread_create(&thread, nullptr, wait, &gate) == 0) {
    threads.push_back(thread);
  }
  absl::Status status;
  if (std::ssize(threads) < more) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("this process needs ", more, " more threads, and gets ", threads.size(), ": ",
                     DescribeThreadLimit(root), "; raise the limit, or give fewer --threads"));
  }
  closed.unlock();
  for (const pthread_t started : threads) pthread_join(started, nullptr);
  return status;
}

absl::Status CheckFiles(int more) {
  const auto most = ProcessLimit(RLIMIT_NOFILE);
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto now = error ? 0 : std::distance(begin(open), end(open));
  if (!most || now + more <= *most) return absl::OkStatus();
  return InputError(
      "`ulimit -n`",
      absl::StrCat("allows ", *most, " open files, and this process needs ", now + more),
      "raise it");
}

std::optional<int> CpuQuota(const std::string& root) {
  std::optional<int64_t> least;
  for (const ControlGroup& group : FindGroups(root, "cpu")) {
    const std::string folder = root + group.folder;
    int64_t quota = 0, period = 0;
    if (group.unified) {
      // "max 100000", "150000 100000"
      const std::vector<std::string> words =
          absl::StrSplit(ReadAll(folder + "/cpu.max"), absl::ByAnyChar(" \n"), absl::SkipEmpty());
      if (words.size() != 2 || !absl::SimpleAtoi(words[0], &quota) ||
          !absl::SimpleAtoi(words[1], &period)) {
        continue;
      }
    } else {
      quota = ReadLimit(folder + "/cpu.cfs_quota_us").value_or(0);
      period = ReadLimit(folder + "/cpu.cfs_period_us").value_or(0);
    }
    if (quota <= 0 || period <= 0) continue;
    const int64_t processors = std::clamp<int64_t>(quota / period, 1, 1 << 20);
    least = std::min(least.value_or(processors), processors);
  }
  return least ? std::optional<int>(static_cast<int>(*least)) : std::nullopt;
}

KernelKills CountKernelKills(const std::string& root) {
  KernelKills kills{.on_host = ReadField(root + "/proc/vmstat", "oom_kill")};
  for (const ControlGroup& group : FindGroups(root, "memory")) {
    const char* const file = group.unified ? "/memory.events" : "/memory.oom_control";
    kills.in_group = std::max(kills.in_group, ReadField(root + group.folder + file, "oom_kill"));
  }
  return kills;
}

std::string DescribeKernelKills(const KernelKills& before, const std::string& root) {
  const KernelKills now = CountKernelKills(root);
  const bool in_group = now.in_group > before.in_group;
  if (!in_group && now.on_host <= before.on_host) return "";
  return absl::StrCat("the kernel has killed a process of this ",
                      in_group ? "control group" : "host",
                      " for want of memory meanwhile: ", LimitText(FindMemoryLimit(root)));
}

}  // namespace oneflow
