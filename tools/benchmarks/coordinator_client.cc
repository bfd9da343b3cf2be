// One process of a job that trains nothing: it joins, reports a step every so often, asks nothing
// of the coordinator in between, and leaves.
//
//   coordinator_client HOST:PORT PROCESS PROCESSES SECONDS STEP_MILLISECONDS [SPIN [KEYS]]
//     -> "port N" (process 0 alone), "joined", then "cpu SECONDS wall SECONDS" of the time between
//        joining and leaving; with SPIN=1 it computes all the while; KEYS is a folder of the job's
//        keys
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actor_runtime/job/member.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

double CpuSeconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return t.tv_sec + t.tv_usec * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int Main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: coordinator_client HOST:PORT PROCESS PROCESSES SECONDS STEP_MILLISECONDS "
                 "[SPIN [KEYS]]\n");
    return 2;
  }
  const double seconds = std::atof(argv[4]);
  const auto step_time = std::chrono::milliseconds(std::atoi(argv[5]));
  const bool spin = argc > 6 && std::atoi(argv[6]) != 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::atomic<int64_t> reports{0};
  MemberCallbacks callbacks;
  callbacks.on_end = [&](const absl::Status& why) {
    std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  };
  callbacks.on_listen = [](int port) {
    std::printf("port %d\n", port);
    std::fflush(stdout);
  };
  callbacks.on_report = [&](uint64_t, int64_t, std::span<const double>) { ++reports; };
  std::optional<JobKeys> keys;
  if (argc > 7) {
    auto read = ReadJobKeys(argv[7]);
    if (!read.ok()) {
      std::fprintf(stderr, "%s\n", read.status().ToString().c_str());
      return 1;
    }
    keys = *std::move(read);
  }
  auto joined = Member::Join({.coordinator = argv[1],
                              .process = std::atoi(argv[2]),
                              .processes = std::atoi(argv[3]),
                              .token = "benchmark",
                              .facts = {{"plan", "none"}},
                              .keys = keys},
                             callbacks);
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.status().ToString().c_str());
    return 1;
  }
  Member& member = **joined;
  std::printf("joined\n");
  std::fflush(stdout);
  const double cpu = CpuSeconds();
  const auto began = Clock::now();
  const auto end =
      began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  member.Begins(0, "train", 0, 1);
  std::unique_lock lock(mutex);
  int64_t writes = 0;
  for (int64_t step = 0; !over && Clock::now() < end; ++step) {
    const double loss = 1.0 / static_cast<double>(step + 1);
    member.Report(0, step, {&loss, 1});
    writes += member.MayWrite();
    const auto next = began + (step + 1) * step_time;
    while (spin && !over && Clock::now() < next) {
      lock.unlock();
      member.MayWrite();  // Anything that computes.
      lock.lock();
    }
    changed.wait_until(lock, next, [&] { return over; });
  }
  lock.unlock();
  const double used = CpuSeconds() - cpu;
  const double wall = std::chrono::duration<double>(Clock::now() - began).count();
  const absl::Status left = member.Leave();
  std::printf("cpu %.4f wall %.3f reports %ld writes %ld %s\n", used, wall, reports.load(), writes,
              left.ToString().c_str());
  return left.ok() ? 0 : 1;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
