// Plans that keep some of their registers in the memory of the host of a CPU device.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"
#include "actor_runtime/exec/trace_facts.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// `on_firing`: called in each kernel before it computes; may be null.
std::unique_ptr<Runtime> Make(
    const proto::Plan& plan, RuntimeOptions options = {},
    const std::function<void(const KernelSetup& setup, const KernelCall& call)>& on_firing = {}) {
  options.make_kernel = [on_firing](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = MakeTestKernel(setup);
    if (!kernel.ok() || !on_firing) return kernel;
    return Kernel([on_firing, setup, inner = *kernel](const KernelCall& call) {
      on_firing(setup, call);
      return inner(call);
    });
  };
  return Runtime::Create(plan, options).value();
}

// A firing that waits until it is let go.
struct Held {
  std::promise<void> entered, leave;
  void Hold() {
    entered.set_value();
    leave.get_future().wait();
  }
};

TEST_CASE("a tensor goes to the host and comes back, and the host updates the weights") {
  const proto::Plan plan = HostMemoryPlan();
  REQUIRE(VerifyPlan(plan, {.kernels = false}).ok());
  const std::unique_ptr<Runtime> runtime = Make(plan, {.threads = 4});
  REQUIRE(runtime->Run("init", {}, 1).ok());
  REQUIRE(runtime->Run("train", {}, 7).ok());
  const std::vector<float> values = Persistent(plan, *runtime, 2);
  const std::vector<float> w(values.begin(), values.begin() + kElements);
  CHECK(w == std::vector<float>(kElements, ChainResult(7)));
  // The master is at the host, and the device has a copy of it.
  CHECK(std::equal(values.begin(), values.begin() + 2 * kElements, values.begin() + 2 * kElements));
  // What the host holds between runs is what a run begins with.
  runtime->PersistentBytes(1, 1)[0] = std::byte{1};
  REQUIRE(runtime->Run("restore", {}, 1).ok());
  CHECK(runtime->PersistentBytes(1, 0)[0] == std::byte{1});
}

TEST_CASE("both arenas of a CPU device are what the plan says") {
  const std::unique_ptr<Runtime> runtime = Make(HostMemoryPlan());
  for (const int rank : {0, 1}) {
    CHECK(runtime->ArenaBytes(rank) == 384);
    CHECK(runtime->HostArenaBytes(rank) == 320);
  }
  CHECK(runtime->PersistentBytes(0, 0).data() != runtime->PersistentBytes(0, 1).data());
  CHECK(Make(TwoRanksPlan())->HostArenaBytes(0) == 0);
  const auto second = Make(HostMemoryPlan(), {.ranks = {1, 2}});
  CHECK(second->HostArenaBytes(1) == 320);
}

TEST_CASE("one thread drives all workers in any order, with the same bits") {
  const proto::Plan plan = HostMemoryPlan();
  const std::unique_ptr<Runtime> threaded = Make(plan);
  REQUIRE(threaded->Run("init", {}, 1).ok());
  REQUIRE(threaded->Run("train", {}, 3).ok());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto drawn = Make(plan, {.draw_worker = [&random](int workers) {
                              CHECK(workers == 2 + 1 + 2 * 3);
                              return static_cast<int>(random() % workers);
                            }});
    REQUIRE(drawn->Run("init", {}, 1).ok());
    REQUIRE(drawn->Run("train", {}, 3).ok());
    CHECK(Persistent(plan, *drawn, 2) == Persistent(plan, *threaded, 2));
  }
}

TEST_CASE("workers of devices go on while a copy is under way") {
  const proto::Plan plan = PrefetchPlan();
  std::promise<void> went_on;
  std::atomic<bool> waiting = false, held_at_compute = false;
  const auto runtime = Make(plan, {}, [&](const KernelSetup& setup, const KernelCall& call) {
    // Once the copy of the second micro-batch is held, the device computes the first.
    if (setup.name == "v.in" && call.firing == 1) {
      waiting = true;
      went_on.get_future().wait();
    }
    if (setup.name == "x" && call.firing == 1) {
      held_at_compute = waiting.load();
      went_on.set_value();
    }
    if (setup.name == "dw" && call.firing == 0) {
      while (!waiting) std::this_thread::yield();
    }
  });
  CHECK(runtime->Run("train", {}, 1).ok());
  CHECK(held_at_compute);
}

TEST_CASE(
    "a report names workers of copies and of what the host computes, and whom they wait for") {
  struct Case {
    std::string actor;  // is held at its firing 4 on rank 1 ...
    int64_t firing;
    std::string worker, other;  // ... whose worker this is; and one that waits
    std::vector<std::string> waits;
  };
  const std::vector<Case> cases = {
      {"x.out",
       5,
       "rank 1, copy.out",
       "rank 1, copy.in",
       {"copy.in: actor x.in at rank 1, firing 5, waits for fill 6 of actor x.out at rank 1 "
        "(has 5; slot 2)"}},
      {"m",
       1,
       "rank 1, host.update",
       "rank 1, copy.in",
       {"copy.in: actor w at rank 1, firing 1, waits for fill 2 of actor m at rank 1 "
        "(has 1; slot 0)"}}};
  for (const Case& c : cases) {
    Held held;
    const auto runtime =
        Make(HostMemoryPlan(), {}, [&](const KernelSetup& setup, const KernelCall& call) {
          if (setup.name == c.actor && call.firing == c.firing && setup.coordinate[0] == 1) {
            held.Hold();
          }
        });
    absl::Status ran;  // assertions are made on one thread
    std::thread run([&] { ran = runtime->Run("train", {}, 3); });
    held.entered.get_future().wait();
    std::vector<WorkerReport> report;
    const auto find = [&](const std::string& name) -> const WorkerReport& {
      for (const WorkerReport& worker : report) {
        if (worker.worker == name) return worker;
      }
      FAIL("no worker " << name);
      return report[0];
    };
    // The others go on for a moment with what they have.
    for (int i = 0; i < 100; ++i) {
      report = runtime->Report();
      REQUIRE(report.size() == 9);
      if (find(c.other).streams == c.waits && !find("rank 1").may_go_on) break;
    }
    CHECK(report[1].worker == "rank 1");
    CHECK(report[2].worker == "host");
    CHECK(report[3].worker == "rank 0, copy.out");
    CHECK(report[8].worker == "rank 1, host.update");
    CHECK(find(c.worker).rank == 1);
    CHECK(find(c.worker).inside == c.actor);
    CHECK(find(c.worker).in_host_kernel);
    CHECK(find(c.worker).streams ==
          std::vector<std::string>{"inside the kernel of actor " + c.actor + " at rank 1"});
    CHECK(find(c.other).streams == c.waits);
    CHECK(find(c.other).waits_for == std::vector<int32_t>{1});
    CHECK(find("rank 1").waits_for == std::vector<int32_t>{1});
    CHECK_FALSE(find("rank 1").in_host_kernel);
    CHECK(runtime->Firings().size() == 9);
    CHECK(runtime->Firings()[6] == report[6].firings);
    held.leave.set_value();
    run.join();
    CHECK(ran.ok());
  }
}

TEST_CASE("a failure among copies ends the run with its name; the next run works") {
  for (const std::string actor : {"x.out", "x.in", "dw", "m", "w"}) {
    proto::Plan plan = HostMemoryPlan();
    SetFailure(&plan, "train", actor, 2);
    const auto runtime = Make(plan);
    for (int i = 0; i < 3; ++i) {
      const absl::Status status = runtime->Run("train", {}, 50);
      CHECK(status.code() == absl::StatusCode::kDataLoss);
      CHECK_THAT(std::string(status.message()),
                 Catch::Contains("actor " + actor + " at rank") && Catch::Contains("as asked"));
      REQUIRE(runtime->Run("init", {}, 1).ok());
    }
    // Copies may be under way when another actor fails.
    const std::unique_ptr<Runtime> slow =
        Make(plan, {.host_link = {.to_host = 1e6, .from_host = 1e6, .latency = 1e-3}});
    CHECK(slow->Run("train", {}, 50).code() == absl::StatusCode::kDataLoss);
    REQUIRE(slow->Run("restore", {}, 1).ok());
  }
}

TEST_CASE("a copy takes at least as long as over the link; the bits are the same") {
  const proto::Plan plan = PrefetchPlan();
  const std::unique_ptr<Runtime> fast = Make(plan);
  REQUIRE(fast->Run("init", {}, 1).ok());
  REQUIRE(fast->Run("train", {}, 2).ok());
  const std::unique_ptr<Runtime> slow = Make(plan, {.host_link = {.from_host = 64e3}});
  REQUIRE(slow->Run("init", {}, 1).ok());
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(slow->Run("train", {}, 2).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= 2 * 4 * 64 / 64e3);
  CHECK(Persistent(plan, *slow, 1) == Persistent(plan, *fast, 1));
}

TEST_CASE("a trace calls copies so") {
  const auto runtime = Make(HostMemoryPlan(), {.trace = true});
  REQUIRE(runtime->Run("train", {}, 1).ok());
  const TraceFacts facts = MakeTraceFacts(runtime->plan());
  CHECK(facts.Find("train", "x.out")->part == TraceFacts::Part::kCopy);
  CHECK(facts.Find("train", "m")->part == TraceFacts::Part::kHost);
  CHECK_THAT(runtime->TraceJson(), Catch::Contains("\"cat\":\"copy\",\"name\":\"x.in\"") &&
                                       Catch::Contains("host.update"));
}

}  // namespace
}  // namespace oneflow
