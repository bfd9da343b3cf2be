// A kernel that does not return in one of two processes: process 0 says whose it is, what ranks
// wait, and the run ends well once the kernel has returned.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"
#include "tests/e2e/small_run.h"
#include "training/job/job.h"
#include "training/trainer/job_watch.h"
#include "training/trainer/processes/processes.h"
#include "training/trainer/trainer.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 12, kStuckStep = 6;

class Zeros final : public TokenSource {
 public:
  absl::Status Sample(int64_t, int64_t, std::span<int32_t> tokens) const override {
    std::fill(tokens.begin(), tokens.end(), 0);
    return absl::OkStatus();
  }
};

// A condition that one thread waits for and another fulfils.
class Gate {
 public:
  void Open(std::string word = "") {
    {
      const std::lock_guard lock(mutex_);
      if (!word_.has_value()) word_ = std::move(word);
    }
    changed_.notify_all();
  }
  std::string Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return word_.has_value(); });
    return *word_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> word_;
};

struct Job {
  const proto::Plan& plan;
  JobWatch* watch;
  std::promise<int> port;  // of process 0's coordinator
  Gate released;
  std::mutex mutex;
  std::string stuck;  // the kernel; under mutex
};

// A kernel of the last stage that waits in one firing.
absl::StatusOr<Kernel> MakeJobKernel(Job* job, const KernelSetup& setup) {
  absl::StatusOr<Kernel> kernel = MakeKernel(setup);
  if (!kernel.ok() || setup.kind != "layer_norm" || setup.name.find("h.3.") != 0) return kernel;
  {
    const std::lock_guard lock(job->mutex);
    if (job->stuck.empty()) job->stuck = setup.name;
    if (job->stuck != setup.name) return kernel;  // of another program, perhaps
  }
  return Kernel([job, inner = *kernel](const KernelCall& call) {
    if (call.run->tokens != nullptr && call.firing == kStuckStep * call.run->micro_batches) {
      job->released.Wait();
    }
    return inner(call);
  });
}

absl::Status Train(Job* job, int process, int port) {
  ProcessesOptions options;
  options.member.process = process;
  options.member.processes = 2;
  options.member.token = "t";
  options.member.coordinator = absl::StrCat("127.0.0.1:", port);
  options.on_listening = [job](int at) { job->port.set_value(at); };
  options.on_note = [job](int of, const std::string& name, const std::string& value) {
    job->watch->Note(of, name, value);
  };
  ASSIGN_OR_RETURN(const auto processes, Processes::Join(std::move(options)));
  TrainerOptions training;
  training.run.set_steps(kSteps);
  training.run.set_stall_seconds(1);
  training.run.set_threads(2);
  training.runtime.make_kernel = [job](const KernelSetup& setup) {
    return MakeJobKernel(job, setup);
  };
  TrainerObserver observer;
  observer.on_look = [job] { job->watch->Look(); };
  const Zeros tokens;
  {
    ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(job->plan, {.train = &tokens}, training,
                                                         processes.get(), observer));
    RETURN_IF_ERROR(trainer->Run());
  }
  return processes->Leave();
}

TEST_CASE("a kernel that does not return in another process is named, and who waits for it") {
  SmallRun small;
  small.Set("--mesh=pipe=2");
  const proto::Plan plan = CompileSmall(small);
  const TemporaryDirectory dir;
  JobReport report(dir.path(), 0);
  Gate printed;
  JobWatch watch(2, 2, &report, [&](const std::string& line) { printed.Open(line); });
  Job job{plan, &watch};
  const auto train = [&](int process, int port) {
    const absl::Status status = Train(&job, process, port);
    printed.Open(absl::StrCat("process ", process, " has ended: ", status.message()));
    return status;
  };
  auto first = std::async(std::launch::async, [&] { return train(0, 0); });
  const int port = job.port.get_future().get();
  auto second = std::async(std::launch::async, [&] { return train(1, port); });
  const std::string line = printed.Wait();
  REQUIRE(!job.stuck.empty());
  CHECK_THAT(line, Catch::StartsWith("the job stands still: rank 1 on host " + HostName() +
                                     " is inside the kernel of " + job.stuck + " since "));
  CHECK_THAT(line, Catch::EndsWith("; 1 rank waits for it"));
  report.Trained(kStuckStep, 1, 1, "");
  const auto status = nlohmann::json::parse(ReadFile(dir.path() + "/status.json").value());
  // Each reported its waiting time of the steps before.
  for (const char* rank : {"rank 0", "rank 1"}) {
    REQUIRE(status["wait_ms"].contains(rank));
    double sum = 0;
    for (const auto& [group, milliseconds] : status["wait_ms"][rank].items()) {
      CHECK_THAT(group, Catch::EndsWith(", ranks 0 and 1") || Catch::EndsWith(", ranks 1 and 0"));
      sum += milliseconds.get<double>();
    }
    CHECK(sum > 0);
  }
  CHECK(status["standstill"].is_string());
  job.released.Open();
  CHECK(first.get().message() == "");
  CHECK(second.get().message() == "");
}

}  // namespace
}  // namespace oneflow
