// A member of an exchange over NCCL that never enters it: the others' devices stand still. Tests
// the output and the end of the run and of the process. Each case is a separate process.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "actor_runtime/exec/runtime.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"
#include "training/trainer/watchdog.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

// A communicator whose member 1 does not come to the first exchange.
class WithoutMember1 final : public Communicator {
 public:
  // `deaf`: it cannot be aborted either.
  WithoutMember1(std::unique_ptr<Communicator> inner, bool deaf)
      : inner_(std::move(inner)), deaf_(deaf) {}

  void SetWake(std::function<void(int)> wake) override { inner_->SetWake(std::move(wake)); }
  void Enter(int member, const ExchangeEntry& entry) override {
    if (member != 1) inner_->Enter(member, entry);
  }
  Progress Poll(int member, ThreadPool* pool) override {
    const Progress progress = inner_->Poll(member, pool);
    return member == 1 && progress == kOver ? kWaiting : progress;
  }
  bool CanProgress(int member) const override { return inner_->CanProgress(member); }
  bool HasEntered(int member, int than) const override { return inner_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override {
    if (!deaf_) inner_->Abort(status);
  }
  absl::Status status() const override { return inner_->status(); }

 private:
  std::unique_ptr<Communicator> inner_;
  const bool deaf_;
};

// Only the first communicator of two members lacks one.
class StallingCarrier final : public Carrier {
 public:
  StallingCarrier(std::shared_ptr<Carrier> of, bool deaf) : of_(std::move(of)), deaf_(deaf) {}
  bool ReachesProcesses() const override { return of_->ReachesProcesses(); }
  absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) override {
    return of_->Bind(exchange);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                     const GroupUse& use) override {
    absl::StatusOr<std::unique_ptr<Communicator>> made = of_->Make(group, use);
    if (!made.ok() || group.members() != 2 || std::exchange(stalled_, true)) return made;
    return std::make_unique<WithoutMember1>(*std::move(made), deaf_);
  }

 private:
  const std::shared_ptr<Carrier> of_;
  const bool deaf_;
  bool stalled_ = false;
};

DeviceBackend Stalling(bool deaf) {
  DeviceBackend backend = HostBackend(2);
  const absl::StatusOr<cuda::Nccl> nccl = cuda::OpenNccl({});
  REQUIRE(nccl.status() == absl::OkStatus());
  cuda::ExchangeOverNccl(*nccl, cuda::IdsInMemory(), &backend);
  backend.carrier = std::make_shared<StallingCarrier>(backend.carrier, deaf);
  return backend;
}

// Trains until the first training fails, then again; returns what the first said.
std::string FailureOfStalledRun(bool deaf, WatchdogOptions options) {
  options.notice = [](const std::string& sentence) {
    std::fprintf(stderr, "%s\n", sentence.c_str());
  };
  // The exchange that a member lacks runs on the device of the other one.
  emulated::Reset({.devices = 2, .nccl_waits_for_all = false});
  const DeviceBackend backend = Stalling(deaf);
  SmallRun run;
  run.Set("--mesh=data=2");
  run.steps = 2;
  run.Set("--device=cuda");
  run.backend = &backend;
  std::unique_ptr<Watchdog> watchdog;
  run.before = [&](const Runtime& runtime, const std::string& program) {
    if (program == "train" && watchdog == nullptr) {
      watchdog = std::make_unique<Watchdog>(const_cast<Runtime&>(runtime), options);
    }
  };
  run.after = [&](const Runtime&, const std::string& program) {
    if (program == "train") watchdog.reset();
  };
  return TrainAfterFailure(run, CompileSmall(run)).failure;
}

struct Ended {
  int code = 0;
  std::string said;  // to stderr
};

// Runs `body` in a child, which ends with what it returns.
template <typename Body>
Ended InChild(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(stdout);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    _exit(body());
  }
  close(ends[1]);
  Ended ended;
  char text[4096];
  for (ssize_t n; (n = read(ends[0], text, sizeof(text))) > 0;) ended.said.append(text, n);
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  ended.code = WEXITSTATUS(status);
  return ended;
}

TEST_CASE("a standstill is explained and ends the run; the next one is good") {
  const Ended ended = InChild([] {
    const std::string failure = FailureOfStalledRun(false, {.stall_seconds = 0.5, .ends = true});
    std::fputs(failure.c_str(), stderr);
    return 7;
  });
  CHECK(ended.code == 7);
  CHECK_THAT(ended.said, Contains("nothing fires\n  rank 0, "));
  CHECK_THAT(ended.said, Contains("runs on the device") && Contains("has entered its exchange"));
  CHECK_THAT(ended.said, Contains("DEADLINE_EXCEEDED: nothing has fired on the GPUs for 0.5 "
                                  "seconds (--stall_seconds): who waits for whom was printed"));
}

TEST_CASE("where the devices do not come to rest the process ends") {
  const Ended ended = InChild([] {
    FailureOfStalledRun(true, {.stall_seconds = 0.5, .ends = true, .rest_seconds = 0.5});
    return 7;
  });
  CHECK(ended.code == 1);
  CHECK_THAT(ended.said, Contains("nothing fires\n"));
  CHECK_THAT(ended.said, Contains("error: the GPUs do not come to rest"));
}

}  // namespace
}  // namespace oneflow
