// The proof of liveness against what GPUs do: mutated CUDA plans, with a GPU a rank and exchanges
// over NCCL. A plan that is proved live finishes on devices that run everything in the order of
// issue and on devices that allow any order that streams and events allow; any other plan does not
// finish on the former, which stand where the proof says. 10,000 mutants with ONEFLOW_TEST_FULL,
// else 500.
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "actor_runtime/exec/interleaved_for_test.h"
#include "oneflow_core/base/status.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/mutants.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 4;
constexpr int kDevices = 4;

// NCCL joins what comes next on either side, and would mix tensors of one size. Here members that
// enter different exchanges never meet, as the contract says.
class Matched final : public Communicator {
 public:
  Matched(std::unique_ptr<Communicator> of, size_t members)
      : of_(std::move(of)), entered_(members, 0), waits_(members, false) {}

  void SetWake(std::function<void(int)> wake) override { of_->SetWake(std::move(wake)); }
  void Enter(int member, const ExchangeEntry& entry) override {
    const size_t number = entered_[member]++;
    if (number == works_.size()) works_.push_back(entry.work);
    waits_[member] = works_[number] != entry.work;
    if (!waits_[member]) of_->Enter(member, entry);
  }
  Progress Poll(int member, ThreadPool* pool) override {
    return waits_[member] ? kWaiting : of_->Poll(member, pool);
  }
  bool CanProgress(int member) const override {
    return !waits_[member] && of_->CanProgress(member);
  }
  bool HasEntered(int member, int than) const override { return of_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override { of_->Abort(status); }
  absl::Status status() const override { return of_->status(); }

 private:
  const std::unique_ptr<Communicator> of_;
  std::vector<const ExchangeWork*> works_;  // by number: what the first member entered
  std::vector<size_t> entered_;
  std::vector<bool> waits_;
};

class MatchedCarrier final : public Carrier {
 public:
  explicit MatchedCarrier(std::shared_ptr<Carrier> of) : of_(std::move(of)) {}
  bool ReachesProcesses() const override { return of_->ReachesProcesses(); }
  absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) override {
    return of_->Bind(exchange);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                     const GroupUse& use) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made, of_->Make(group, use));
    return std::make_unique<Matched>(std::move(made), group.ranks.size());
  }

 private:
  const std::shared_ptr<Carrier> of_;
};

absl::Status RunOn(emulated::Model model, const proto::Plan& plan, uint64_t seed) {
  emulated::Reset({.devices = kDevices, .model = model, .seed = seed});
  DeviceBackend backend = HostBackend(kDevices);
  const absl::StatusOr<cuda::Nccl> nccl = cuda::OpenNccl({});
  REQUIRE(nccl.ok());
  cuda::ExchangeOverNccl(*nccl, cuda::IdsInMemory(), &backend);
  backend.carrier = std::make_shared<MatchedCarrier>(backend.carrier);
  RuntimeOptions options;
  options.backend = &backend;
  options.prove = false;
  const auto runtime = Runtime::Create(plan, Interleaved(seed, std::move(options)));
  if (!runtime.ok()) return runtime.status();
  return (*runtime)->Run("train", {}, kSteps);
}

struct Counts {
  int live = 0, stuck = 0, inconsistent = 0, only_free = 0;
};

// Runs mutant `number` on each kind of device.
void Check(proto::Plan plan, int number, Counts* counts) {
  plan.set_launch_queue(number % 2 == 0 ? 64 : 1 + number % 3);
  const Judgement judgement = Judge(plan);
  const absl::Status serial = RunOn(emulated::Model::kSerial, plan, number);
  INFO("mutant " << number << ", launch queue " << plan.launch_queue() << ": " << judgement.why);
  INFO("serial: " << serial.ToString());
  REQUIRE(serial.ok() == (judgement.verdict == Verdict::kLive));
  if (judgement.verdict == Verdict::kInconsistent) {
    ++counts->inconsistent;
    return;
  }
  const absl::Status free = RunOn(emulated::Model::kFree, plan, number);
  INFO("free: " << free.ToString());
  if (judgement.verdict == Verdict::kLive) {
    ++counts->live;
    REQUIRE(free.ok());
    REQUIRE(RunOn(emulated::Model::kLazy, plan, number) == absl::OkStatus());
  } else {
    ++counts->stuck;
    counts->only_free += free.ok();
    REQUIRE(absl::StrContains(serial.message(), "stuck"));
    const std::string first = FindBlocked(plan, judgement.why);
    REQUIRE(!first.empty());
    REQUIRE(absl::StrContains(serial.message(), first));
  }
}

void CheckLive(const std::vector<Base>& bases) {
  for (const Base& base : bases) {
    const Judgement judgement = Judge(base.plan);
    INFO(judgement.why);
    REQUIRE(judgement.verdict == Verdict::kLive);
  }
}

TEST_CASE("a mutated plan is live exactly if GPUs that keep to the order of issue finish it") {
  const int mutants = std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 10000 : 500;
  const std::vector<Base> bases = Bases(proto::CUDA);
  CheckLive(bases);
  Counts counts;
  for (int i = 0; i < mutants; ++i) Check(MakeMutant(bases, i).plan, i, &counts);
  WARN("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent << ", finished by free devices alone " << counts.only_free);
  CHECK(counts.live * 5 >= mutants);
  CHECK(counts.stuck * 5 >= mutants);
}

TEST_CASE("so it is where gathers run ahead of compute, and where a credit comes too late") {
  const int mutants = std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 2000 : 100;
  const std::vector<Base> bases = BasesWithGathersAhead(proto::CUDA);
  CheckLive(bases);
  Counts counts;
  for (int i = 0; i < mutants; ++i) Check(MakeCreditMutant(bases, i).plan, i, &counts);
  CHECK(counts.stuck * 10 >= mutants);
}

TEST_CASE("so it is where registers rest in the host's memory") {
  const int mutants = std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 1000 : 40;
  const std::vector<Base> bases = BasesWithOffload(proto::CUDA);
  CheckLive(bases);
  Counts counts;
  for (int i = 0; i < mutants; ++i) Check(MakeCreditMutant(bases, i).plan, i, &counts);
  WARN("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent << ", finished by free devices alone " << counts.only_free);
  CHECK(counts.live * 5 >= mutants);
  CHECK(counts.stuck * 8 >= mutants);
}

}  // namespace
}  // namespace oneflow
