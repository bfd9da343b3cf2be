// RunOptions::gate: which steps a run still takes once it is to stop.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/step_gate.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

constexpr int64_t kNoEnd = int64_t{1} << 40;

// `on_firing` is called in the kernel of each firing of program train.
using OnFiring = std::function<void(const std::string& actor, int64_t firing)>;

// The run of this gate ends with the steps that have begun. For workers: others must wake the
// runtime, too.
void Stop(StepGate* gate) { gate->EndAt(gate->Hold()); }

std::unique_ptr<Runtime> Make(const proto::Plan& plan, const OnFiring& on_firing = nullptr) {
  RuntimeOptions options;
  options.make_kernel = [on_firing](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = MakeTestKernel(setup);
    if (!kernel.ok() || !on_firing) return kernel;
    return Kernel([on_firing, name = setup.name, inner = *kernel](const KernelCall& call) {
      on_firing(name, call.firing);
      return inner(call);
    });
  };
  return Runtime::Create(plan, options).value();
}

// The run was stopped after `steps` steps. It leaves the state that a run of so many steps leaves,
// and the next run is not affected.
void CheckStopped(const proto::Plan& plan, Runtime* stopped, int64_t steps) {
  REQUIRE(stopped->steps_done() == steps);
  const std::unique_ptr<Runtime> full = Make(plan);
  REQUIRE(full->Run("train", {}, steps).ok());
  CHECK(Persistent(plan, *stopped, stopped->ranks()) == Persistent(plan, *full, full->ranks()));
  REQUIRE(stopped->Run("train", {}, 2).ok());
  CHECK(stopped->steps_done() == 2);
  REQUIRE(full->Run("train", {}, 2).ok());
  CHECK(Persistent(plan, *stopped, stopped->ranks()) == Persistent(plan, *full, full->ranks()));
}

TEST_CASE("a step may begin that a device has begun, or any while the run is not stopping") {
  CHECK(MayBegin(0, 0, false));
  CHECK(MayBegin(3, 3, false));
  CHECK(MayBegin(9, 3, false));
  CHECK(MayBegin(2, 3, true));
  CHECK_FALSE(MayBegin(3, 3, true));
  CHECK_FALSE(MayBegin(9, 3, true));
  CHECK_FALSE(MayBegin(0, 0, true));
}

TEST_CASE("a long run ends with complete steps, as many on all devices; the next one works") {
  for (const proto::Plan& plan :
       {ChainPlan(), TwoRanksPlan(), TwoStagesPlan(), HostMemoryPlan(), PrefetchPlan()}) {
    for (int64_t at = 0; at < 20; ++at) {
      const std::unique_ptr<Runtime> stopped = Make(plan);
      StepGate gate;
      RunOptions options;
      options.on_step = [&](int64_t step) {
        if (step != at) return;
        Stop(&gate);
        stopped->Wake();
      };
      options.gate = &gate;
      const absl::Status status = stopped->Run("train", {}, kNoEnd, options);
      INFO(status);
      REQUIRE(status.ok());
      CHECK(stopped->steps_done() > at);
      CheckStopped(plan, stopped.get(), stopped->steps_done());
    }
  }
}

TEST_CASE("the step that is begun is finished, and no device begins another") {
  // Firings of each step's first device actor, 4 a step; the other stage cannot be a step ahead.
  const std::vector<std::pair<proto::Plan, std::string>> cases = {
      {ChainPlan(), "dw"}, {TwoStagesPlan(), "x"}, {TwoStagesPlan(), "dx"}, {PrefetchPlan(), "dw"}};
  for (const auto& [plan, actor] : cases) {
    for (const int64_t step : {0, 1, 7}) {
      for (const int64_t firing : {4 * step, 4 * step + 2}) {
        StepGate gate;
        const auto stopped = Make(plan, [&, wanted = actor](const std::string& name, int64_t n) {
          if (name == wanted && n == firing) Stop(&gate);
        });
        REQUIRE(stopped->Run("train", {}, kNoEnd, {.gate = &gate}).ok());
        CheckStopped(plan, stopped.get(), step + 1);
      }
    }
  }
}

TEST_CASE("data that a host stream has prepared does not begin the next step") {
  std::promise<void> ahead;
  StepGate gate;
  const auto stopped = Make(ChainPlan(), [&](const std::string& actor, int64_t firing) {
    // The host has two micro-batches of step 3 ready when the device is at the end of step 2.
    if (actor == "x" && firing == 12) ahead.set_value();
    if (actor != "dw" || firing != 11) return;
    ahead.get_future().wait();
    Stop(&gate);
  });
  REQUIRE(stopped->Run("train", {}, kNoEnd, {.gate = &gate}).ok());
  CheckStopped(ChainPlan(), stopped.get(), 3);
}

// The host comes to the end of both steps while the device is in the first one, and learns of no
// stop.
TEST_CASE("a run is stopped after a host stream has prepared all of it") {
  proto::Plan plan = ChainPlan();
  proto::StageMemory& memory = *plan.mutable_memory(0);
  proto::Register& x = *plan.mutable_program(1)->mutable_register_(0);
  REQUIRE(x.name() == "x");
  x.set_slots(8);
  x.set_offset(memory.arena_bytes());
  memory.set_register_bytes(memory.register_bytes() + 8 * x.slot_bytes());
  memory.set_arena_bytes(memory.arena_bytes() + 8 * x.slot_bytes());
  std::promise<void> prepared;
  StepGate gate;
  const auto stopped = Make(plan, [&](const std::string& actor, int64_t firing) {
    const bool stops = gate.end() != StepGate::kNoEnd;
    if (actor == "x" && firing == 7 && !stops) prepared.set_value();
    if (actor != "dw" || firing != 3 || stops) return;
    prepared.get_future().wait();
    Stop(&gate);
  });
  const absl::Status status = stopped->Run("train", {}, 2, {.gate = &gate});
  INFO(status);
  REQUIRE(status.ok());
  CheckStopped(plan, stopped.get(), 1);
}

TEST_CASE("a run that is to stop before it begins takes no step; one without a stop takes all") {
  const std::unique_ptr<Runtime> runtime = Make(TwoStagesPlan());
  StepGate gate;
  Stop(&gate);
  REQUIRE(runtime->Run("train", {}, 5, {.gate = &gate}).ok());
  CheckStopped(TwoStagesPlan(), runtime.get(), 0);
  REQUIRE(runtime->Run("train", {}, 5).ok());
  CHECK(runtime->steps_done() == 5);
}

}  // namespace
}  // namespace oneflow
