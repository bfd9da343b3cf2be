// Several processes of one plan, each with the arenas and threads of its ranks, joined by messages
// alone. Here all are in one process, which delivers the messages in a drawn order.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/exchange/far_communicator.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

// A communicator that its network keeps: messages may still be on their way to it when the runtime
// has done with it.
class Lent final : public Communicator {
 public:
  explicit Lent(std::shared_ptr<FarCommunicator> of) : of_(std::move(of)) {}
  // The network may end at this moment, which wakes workers.
  ~Lent() override {
    of_->Abort(absl::CancelledError("the network ends"));
    of_->SetWake([](int) {});
  }
  void SetWake(std::function<void(int)> wake) override { of_->SetWake(std::move(wake)); }
  void Enter(int member, const ExchangeEntry& entry) override { of_->Enter(member, entry); }
  Progress Poll(int member, ThreadPool* pool) override { return of_->Poll(member, pool); }
  bool CanProgress(int member) const override { return of_->CanProgress(member); }
  bool HasEntered(int member, int than) const override { return of_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override { of_->Abort(status); }
  absl::Status status() const override { return of_->status(); }

 private:
  std::shared_ptr<FarCommunicator> of_;
};

// Carries messages between communicators of one number.
class Network {
 public:
  CommunicatorMaker Maker() {
    return [this](const Group& group,
                  const ExchangeBounds& bounds) -> std::unique_ptr<Communicator> {
      auto made =
          std::make_shared<FarCommunicator>(group, bounds, [this, group](const FarAction& action) {
            const FarMessage& message = action.message;
            const std::lock_guard lock(mutex_);
            under_way_.push_back(
                {group.FindProcess(message.to), group.FindProcess(message.from), action});
          });
      const std::lock_guard lock(mutex_);
      communicators_[{group.id, group.self()}] = made;
      return std::make_unique<Lent>(made);
    };
  }

  // One message, if there is any. One thread.
  void Deliver(std::mt19937_64* random) {
    Letter letter;
    std::shared_ptr<FarCommunicator> to, from;
    {
      const std::lock_guard lock(mutex_);
      if (under_way_.empty()) return;
      std::swap(under_way_[(*random)() % under_way_.size()], under_way_.back());
      letter = under_way_.back();
      under_way_.pop_back();
      to = communicators_.at({letter.action.message.communicator, letter.to});
      from = communicators_.at({letter.action.message.communicator, letter.from});
    }
    const FarMessage& message = letter.action.message;
    if (message.kind != FarMessage::kPiece) {
      refused_ += to->Receive(message).ok() ? 0 : 1;
      return;
    }
    const absl::StatusOr<std::span<std::byte>> index = to->Arriving(message);
    refused_ += index.ok() ? 0 : 1;
    if (index.ok() && !index->empty()) {
      size_t at = 0;
      ForPayload(letter.action, [&](const std::byte* row, size_t bytes) {
        std::memcpy(index->data() + at, row, bytes);
        at += bytes;
      });
      to->Arrived(message);
    }
    from->Sent();
  }

  int refused() const { return refused_; }

 private:
  struct Letter {
    int to = 0, from = 0;  // processes
    FarAction action = {};
  };
  std::mutex mutex_;
  // By number and process; under mutex_.
  std::map<std::pair<uint64_t, int>, std::shared_ptr<FarCommunicator>> communicators_;
  std::vector<Letter> under_way_;  // under mutex_
  int refused_ = 0;
};

// A workspace for each exchange that has an output, after all registers.
proto::Plan WithWindows(proto::Plan plan) {
  for (proto::Program& program : *plan.mutable_program()) {
    for (proto::Actor& actor : *program.mutable_actor()) {
      if (!actor.has_exchange() || actor.output_size() == 0) continue;
      proto::StageMemory* memory = plan.mutable_memory(actor.stage());
      proto::Register* window = program.add_register_();
      *window = program.register_(actor.output(0) - plan.persistent_size());
      window->set_id(plan.persistent_size() + program.register__size() - 1);
      window->set_name(actor.name() + ".workspace");
      window->set_slots(1);
      window->set_offset(memory->arena_bytes());
      actor.set_workspace(window->id());
      memory->set_register_bytes(memory->register_bytes() + window->slot_bytes());
      memory->set_arena_bytes(memory->arena_bytes() + window->slot_bytes());
    }
  }
  return plan;
}

// Runs all programs of a plan, a device a process.
struct Processes {
  explicit Processes(const proto::Plan& plan) {
    for (int rank = 0; rank < 2; ++rank) {
      RuntimeOptions options;
      options.ranks = {rank, rank + 1};
      options.make_kernel = MakeTestKernel;
      options.make_communicator = network.Maker();
      std::unique_ptr<Runtime> runtime = Runtime::Create(plan, options).value();
      runtimes.push_back(std::move(runtime));
    }
  }

  std::vector<absl::Status> Run(const std::string& program, int64_t steps, uint64_t seed) {
    std::vector<absl::Status> statuses(runtimes.size());
    std::atomic<int> running = static_cast<int>(runtimes.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < runtimes.size(); ++p) {
      threads.emplace_back([&, p] {
        statuses[p] = runtimes[p]->Run(program, {}, steps);
        --running;
      });
    }
    std::mt19937_64 random(seed);
    while (running > 0) {
      network.Deliver(&random);
      std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  std::span<std::byte> PersistentBytes(int rank, int register_id) const {
    return runtimes[rank]->PersistentBytes(rank, register_id);
  }

  Network network;
  std::vector<std::unique_ptr<Runtime>> runtimes;
};

TEST_CASE("two processes that share nothing compute the bits of one") {
  for (const proto::Plan& plan : {WithWindows(TwoRanksPlan()), WithWindows(TwoStagesPlan())}) {
    const auto one = Runtime::Create(plan, {.make_kernel = MakeTestKernel}).value();
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Processes two(plan);
      for (const proto::Program& program : plan.program()) {
        // Several runs of different programs: exchanges are numbered on.
        for (const int64_t steps : {1, 4}) {
          if (seed == 0) REQUIRE(one->Run(program.name(), {}, steps).ok());
          for (const absl::Status& status : two.Run(program.name(), steps, seed)) {
            INFO(status);
            REQUIRE(status.ok());
          }
        }
      }
      CHECK(two.network.refused() == 0);
      CHECK(Persistent(plan, two, 2) == Persistent(plan, *one, 2));
    }
  }
}

TEST_CASE("a kernel that fails in one process ends the run in both") {
  proto::Plan plan = WithWindows(TwoStagesPlan());
  SetFailure(&plan, "train", "dx", 6);
  Processes two(plan);
  for (const absl::Status& status : two.Run("init", 1, 0)) REQUIRE(status.ok());
  const std::vector<absl::Status> statuses = two.Run("train", 50, 1);
  CHECK(statuses[1].code() == absl::StatusCode::kDataLoss);
  CHECK(statuses[0].code() == absl::StatusCode::kAborted);
  CHECK_THAT(std::string(statuses[0].message()),
             Catch::Contains("process 1 has ended the exchange"));
}

TEST_CASE("an exchange across processes needs the window that the plan should give it") {
  Network network;
  const absl::Status status = Runtime::Create(TwoRanksPlan(), {.ranks = {0, 1},
                                                               .make_communicator = network.Maker(),
                                                               .make_kernel = MakeTestKernel})
                                  .status();
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("actor g.sum: has 0 bytes of workspace, needs 64"));
}

}  // namespace
}  // namespace oneflow
