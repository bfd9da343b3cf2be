#include "actor_runtime/device/host_limits.h"

#include <sys/resource.h>

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A host as /proc and /sys show it.
class Host {
 public:
  Host() {
    Write("proc/meminfo",
          "MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:  524288 kB\n"
          "SwapTotal:       102400 kB\n");
    Write("proc/vmstat", "nr_free_pages 5\noom_kill 7\n");
  }
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    REQUIRE(WriteFile(path, text).ok());
  }
  // One hierarchy for all controllers.
  void UseVersion2(const std::string& path, const std::string& mounted = "/") {
    Write("proc/self/cgroup", "0::" + path + "\n");
    Write("proc/self/mountinfo",
          "29 22 0:26 " + mounted +
              " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void UseVersion1(const std::string& path, const std::string& mounted = "/") {
    Write("proc/self/cgroup", "5:pids:" + path + "\n4:memory:" + path + "\n1:cpu,cpuacct:" + path +
                                  "\n1:name=systemd:/x\n0::/\n");
    std::string mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n";
    for (const std::string controllers : {"memory", "pids", "cpu,cpuacct"}) {
      mounts += "35 31 0:32 " + mounted + " /sys/fs/cgroup/" + controllers +
                " rw,relatime - cgroup cgroup rw," + controllers + "\n";
    }
    Write("proc/self/mountinfo",
          mounts + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  std::string root() const { return folder_.path(); }

  // The refusal of so many MiB, or the warning; empty: neither.
  std::string Check(int64_t mib) const {
    std::string text;
    const absl::Status status = CheckMemory(
        {.of_process = kMiB, .of_host = mib * kMiB}, [&](const std::string& w) { text = w; },
        root());
    if (!status.ok()) CHECK(absl::IsInvalidArgument(status));
    return status.ok() ? text : std::string(status.message());
  }

 private:
  TemporaryDirectory folder_;
};

TEST_CASE("a plan is held against the host's memory and swap, and against what is free") {
  Host host;
  CHECK(host.Check(512).empty());
  CHECK(host.Check(513) ==
        "warning: the plan takes 537,919,488 bytes (513.0 MiB) of this host's memory, and this "
        "host has 536,870,912 bytes (512.0 MiB) free at this time: it may swap, or the kernel may "
        "kill it");
  CHECK(host.Check(1124).starts_with("warning"));
  CHECK(host.Check(1125) ==
        "plan: takes 1,179,648,000 bytes (1.1 GiB) of this host's memory, and the host's memory "
        "and swap are 1,178,599,424 bytes (1.1 GiB); give it more, or use a plan that takes less");
}

TEST_CASE("the smallest control group on the way to the root limits memory") {
  Host host;
  SECTION("version 2") {
    host.UseVersion2("/slice/job/step");
    const std::string own = "sys/fs/cgroup/slice/job/step/", job = "sys/fs/cgroup/slice/job/";
    host.Write(own + "memory.max", "max\n");
    host.Write(job + "memory.max", "94371840\n");
    host.Write(job + "memory.swap.max", "0\n");
    host.Write("sys/fs/cgroup/slice/memory.max", "104857600\n");
    CHECK(host.Check(90).empty());
    CHECK(host.Check(91) ==
          "plan: takes 95,420,416 bytes (91.0 MiB) of this host's memory, and the control group "
          "(/sys/fs/cgroup/slice/job/memory.max) allows 94,371,840 bytes (90.0 MiB); give it more, "
          "or use a plan that takes less");
    // The host's swap is the group's, too.
    host.Write(job + "memory.swap.max", "max\n");
    CHECK(host.Check(190).empty());
    host.Write(job + "memory.current", "62914560\n");
    host.Write(job + "memory.stat", "anon 5\ninactive_file 10485760\n");
    CHECK(host.Check(40).empty());
    CHECK(host.Check(41).find("the control group /sys/fs/cgroup/slice/job has 41,943,040 bytes") !=
          std::string::npos);
  }
  SECTION("version 1") {
    host.UseVersion1("/a/b");
    host.Write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    host.Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "94371840\n");
    CHECK(host.Check(190).empty());
    host.Write("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", "94371840\n");
    CHECK(host.Check(90).empty());
    CHECK(host.Check(91).find("(/sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes) allows") !=
          std::string::npos);
    host.Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "94371840\n");
    CHECK(host.Check(1).starts_with("warning"));
  }
}

TEST_CASE("a container that sees a part of the groups finds its own at the mount's root") {
  Host host;
  host.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "94371840\n");
  host.Write("sys/fs/cgroup/memory.max", "94371840\n");
  const auto is_limited = [&] { return host.Check(500).starts_with("plan: "); };
  host.UseVersion1("/docker/0123", "/docker/0123");
  CHECK(is_limited());
  host.UseVersion1("/docker/0123", "/docker/01");
  CHECK(is_limited());
  host.UseVersion2("/");
  CHECK(is_limited());
  host.UseVersion2("/../outside");
  CHECK(is_limited());
  host.UseVersion2("/kubepods/pod1", "/kubepods");
  CHECK(is_limited());
}

TEST_CASE("files that are not there, or are not as expected, limit nothing") {
  Host host;
  for (const char* text : {"", "\n", "garbage\n", "0::\n", "::::\n", "4:memory\n", "0::/gone\n"}) {
    INFO(text);
    host.Write("proc/self/cgroup", text);
    host.Write("proc/self/mountinfo", text);
    CHECK(host.Check(100).empty());
    CHECK_FALSE(CpuQuota(host.root()));
  }
  host.UseVersion2("/x");
  host.Write("sys/fs/cgroup/x/memory.max", "many\n");
  host.Write("sys/fs/cgroup/x/cpu.max", "1\n");
  CHECK(host.Check(100).empty());
  CHECK_FALSE(CpuQuota(host.root()));
  host.Write("proc/meminfo", "");
  CHECK(host.Check(1 << 20).empty());
}

TEST_CASE("the smallest quota of processor time counts, in whole processors") {
  Host host;
  SECTION("version 2") {
    host.UseVersion2("/a/b");
    const auto quota = [&](const std::string& outer, const std::string& own) {
      host.Write("sys/fs/cgroup/a/cpu.max", outer + "\n");
      host.Write("sys/fs/cgroup/a/b/cpu.max", own + "\n");
      return CpuQuota(host.root()).value_or(0);
    };
    CHECK(quota("max 100000", "max 100000") == 0);
    CHECK(quota("400000 100000", "max 100000") == 4);
    CHECK(quota("400000 100000", "250000 100000") == 2);
    CHECK(quota("100000 50000", "30000 100000") == 1);
  }
  SECTION("version 1") {
    host.UseVersion1("/a");
    host.Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    host.Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    CHECK_FALSE(CpuQuota(host.root()));
    host.Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
    CHECK(CpuQuota(host.root()) == 3);
  }
}

TEST_CASE("what the kernel has killed meanwhile is named, with what was used up") {
  Host host;
  for (const bool unified : {false, true}) {
    const std::string folder = unified ? "sys/fs/cgroup/a/" : "sys/fs/cgroup/memory/a/";
    const std::string file = folder + (unified ? "memory.events" : "memory.oom_control");
    unified ? host.UseVersion2("/a") : host.UseVersion1("/a");
    host.Write(folder + (unified ? "memory.max" : "memory.memsw.limit_in_bytes"), "94371840\n");
    if (unified) host.Write(folder + "memory.swap.max", "0\n");
    host.Write("proc/vmstat", "oom_kill 7\n");
    host.Write(file, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    const KernelKills before = CountKernelKills(host.root());
    CHECK(DescribeKernelKills(before, host.root()).empty());
    host.Write("proc/vmstat", "oom_kill 8\n");
    CHECK(DescribeKernelKills(before, host.root())
              .starts_with("the kernel has killed a process of this host for want of memory"));
    host.Write(file, "oom 9\noom_kill 2\n");
    const std::string said = DescribeKernelKills(before, host.root());
    CHECK(
        said.starts_with("the kernel has killed a process of this control group for want of "
                         "memory meanwhile: the control group (/sys/fs/cgroup/"));
    CHECK(said.ends_with(") allows 94,371,840 bytes (90.0 MiB)"));
  }
}

// Lowers a limit of this process for a while.
class Lowered {
 public:
  Lowered(decltype(RLIMIT_AS) resource, rlim_t most) : resource_(resource) {
    REQUIRE(getrlimit(resource, &before_) == 0);
    const rlimit less{most, before_.rlim_max};
    REQUIRE(setrlimit(resource, &less) == 0);
  }
  ~Lowered() { setrlimit(resource_, &before_); }

 private:
  const decltype(RLIMIT_AS) resource_;
  rlimit before_ = {};
};

TEST_CASE("limits of the process are named") {
  const PlannedMemory large{.of_process = int64_t{1} << 50, .of_host = 1};
  CHECK(CheckMemory(large, {}).ok());
  {
    const Lowered data(RLIMIT_DATA, rlim_t{1} << 49);
    const std::string said(CheckMemory(large, {}).message());
    CHECK(said.starts_with("plan: takes 1,125,899,906,842,624 bytes (1.0 PiB) of this process, "));
    CHECK(said.find("`ulimit -d` allows 562,949,953,421,312 bytes (512.0 TiB); give") !=
          std::string::npos);
  }
  CHECK(CheckFiles(10).ok());
  {
    const Lowered files(RLIMIT_NOFILE, 60);
    CHECK(CheckFiles(10).ok());
    CHECK_THAT(std::string(CheckFiles(60).message()),
               Catch::Matches("`ulimit -n`: allows 60 open files, and this process needs [0-9]+; "
                              "raise it"));
  }
  Host host;
  CHECK(DescribeThreadLimit(host.root()).find("ulimit -v") == std::string::npos);
  {
    const Lowered threads(RLIMIT_NPROC, 12345);
    CHECK(DescribeThreadLimit(host.root()) ==
          "`ulimit -u` allows this user 12345 threads and processes");
  }
  host.UseVersion2("/a/b");
  host.Write("sys/fs/cgroup/a/pids.max", "5\n");
  host.Write("sys/fs/cgroup/a/pids.current", "5\n");
  host.Write("sys/fs/cgroup/a/b/pids.max", "9\n");
  host.Write("sys/fs/cgroup/a/b/pids.current", "4\n");
  CHECK(DescribeThreadLimit(host.root()) ==
        "the control group (/sys/fs/cgroup/a/pids.max) allows 5, and has them");
}

TEST_CASE("threads are there, or the limit is named") {
  CHECK(CheckThreads(0).ok());
  CHECK(CheckThreads(5).ok());
}

}  // namespace
}  // namespace oneflow
