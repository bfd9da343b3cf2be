#include "actor_runtime/exec/runtime.h"

#include <catch2/catch.hpp>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

std::unique_ptr<Runtime> Make(const proto::Plan& plan, RuntimeOptions options = {}) {
  options.make_kernel = MakeTestKernel;
  return Runtime::Create(plan, options).value();
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("a chain accumulates four micro-batches and updates once a step") {
  const proto::Plan plan = ChainPlan();
  const std::unique_ptr<Runtime> runtime = Make(plan);
  REQUIRE(runtime->Run("init", {}, 1).ok());
  REQUIRE(runtime->Run("train", {}, 7).ok());
  CHECK(Persistent(plan, *runtime, 1) == std::vector<float>(kElements, ChainResult(7)));
}

TEST_CASE(
    "persistent registers live between runs: init, then three steps, then none, then init again") {
  const proto::Plan plan = ChainPlan();
  const std::unique_ptr<Runtime> runtime = Make(plan);
  REQUIRE(runtime->Run("init", {}, 1).ok());
  REQUIRE(runtime->Run("train", {}, 3).ok());
  REQUIRE(runtime->Run("train", {}, 0).ok());
  CHECK(Persistent(plan, *runtime, 1)[0] == ChainResult(3));
  REQUIRE(runtime->Run("init", {}, 1).ok());
  CHECK(Persistent(plan, *runtime, 1)[0] == 1);
}

TEST_CASE("many short runs: nothing is lost between workers, and each ends drained") {
  const proto::Plan plan = TwoStagesPlan();
  const std::unique_ptr<Runtime> runtime = Make(plan);
  const std::unique_ptr<Runtime> alone = Make(plan, Interleaved(1));
  for (int i = 0; i < 200; ++i) {
    REQUIRE(runtime->Run("train", {}, 1 + i % 3).ok());
    REQUIRE(alone->Run("train", {}, 1 + i % 3).ok());
    // Every firing counts in the weights: one that is lost, or comes twice, is seen in them.
    REQUIRE(Persistent(plan, *runtime, runtime->ranks()) ==
            Persistent(plan, *alone, runtime->ranks()));
  }
}

TEST_CASE("the arena is what the plan says") {
  const std::unique_ptr<Runtime> runtime = Make(TwoStagesPlan());
  CHECK(runtime->ArenaBytes(0) == 256);
  CHECK(runtime->ArenaBytes(1) == 320);
}

TEST_CASE("kernel threads are shared out over devices, within what the plan's workspaces hold") {
  CHECK(Make(ChainPlan(), {.threads = 1})->kernel_threads() == 1);
  CHECK(Make(ChainPlan(), {.threads = 8})->kernel_threads() == 2);
  CHECK(Make(TwoRanksPlan(), {.threads = 8})->kernel_threads() == 1);
}

TEST_CASE("a finished step is reported in order, on the thread that called Run") {
  const std::unique_ptr<Runtime> runtime = Make(TwoRanksPlan());
  std::vector<int64_t> steps;
  const auto self = std::this_thread::get_id();
  bool here = true;
  REQUIRE(runtime
              ->Run("train", {}, 20,
                    {.on_step =
                         [&](int64_t step) {
                           steps.push_back(step);
                           here &= std::this_thread::get_id() == self;
                         }})
              .ok());
  std::vector<int64_t> expected(20);
  for (int64_t i = 0; i < 20; ++i) expected[i] = i;
  CHECK(steps == expected);
  CHECK(here);
}

TEST_CASE("a kernel's failure ends the run with its name; the next run and the next runtime work") {
  proto::Plan plan = TwoStagesPlan();
  SetFailure(&plan, "train", "dx", 6);
  const std::unique_ptr<Runtime> runtime = Make(plan);
  RunContext context;
  context.first_step = 100;
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = runtime->Run("train", context, 50);
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(Text(status) == "program train, step 101, actor dx at rank 1, firing 6: as asked");
    // It fails at firing 6 only: one step is 4 firings.
    REQUIRE(runtime->Run("init", context, 1).ok());
    REQUIRE(runtime->Run("train", context, 1).ok());
  }
  CHECK(Make(TwoStagesPlan())->Run("train", context, 3).ok());
}

TEST_CASE("Cancel ends a long run; the next one works") {
  const proto::Plan plan = TwoRanksPlan();
  const std::unique_ptr<Runtime> runtime = Make(plan);
  const absl::Status status =
      runtime->Run("train", {}, int64_t{1} << 40, {.on_step = [&](int64_t step) {
                     if (step == 2) runtime->Cancel();
                   }});
  CHECK(status.code() == absl::StatusCode::kCancelled);
  runtime->Cancel();  // nothing runs: no effect
  CHECK(runtime->Run("train", {}, 2).ok());
}

TEST_CASE("a run that stands still says who waits for whom; between runs there is nothing to say") {
  const proto::Plan plan = TwoStagesPlan();
  std::promise<void> entered, leave;
  RuntimeOptions options;
  options.make_kernel = [&](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = MakeTestKernel(setup);
    if (!kernel.ok() || setup.name != "x") return kernel;
    return Kernel([&, inner = *kernel](const KernelCall& call) {
      if (call.firing == 5) {  // the second of step 1
        entered.set_value();
        leave.get_future().wait();
      }
      return inner(call);
    });
  };
  const auto runtime = Runtime::Create(plan, options).value();
  CHECK(runtime->Report().empty());
  CHECK(runtime->Firings().empty());
  absl::Status ran;  // assertions are made on one thread
  std::thread run([&] { ran = runtime->Run("train", {}, 3); });
  entered.get_future().wait();
  const std::string wanted =
      "compute: actor dx at rank 1, firing 5, waits for fill 6 of actor x.recv at "
      "rank 1 (has 5; slot 1)";
  // The other stage goes on for a moment with the messages that it has. Its progress with the
  // gradients depends on the moment at which the first stage stopped.
  std::vector<WorkerReport> report;
  const auto stands = [&] { return report[1].streams[0].substr(0, wanted.size()) == wanted; };
  for (int i = 0; i < 20; ++i) {
    report = runtime->Report();
    REQUIRE(report.size() == 3);
    if (stands()) break;
  }
  INFO(report[1].streams[0]);
  CHECK(stands());
  REQUIRE(report[1].streams.size() == 3);
  CHECK(report[0].worker == "rank 0");
  CHECK(report[0].streams == std::vector<std::string>{"inside the kernel of actor x at rank 0"});
  CHECK(report[1].streams[1] ==
        "receive.forward: actor x.recv at rank 1 has entered its exchange, waits for actor x.send "
        "at rank 0, which has not");
  CHECK(report[2].worker == "host");
  CHECK(report[2].streams == std::vector<std::string>{"has done all its steps"});
  CHECK(runtime->Firings()[1] == report[1].firings);
  leave.set_value();
  run.join();
  CHECK(ran.ok());
  CHECK(runtime->Report().empty());
}

TEST_CASE(
    "a process that owns some ranks runs these; what other processes hold it cannot reach yet") {
  // Without its sum, the plan of two ranks is two devices that do not know of each other.
  proto::Plan alone = TwoRanksPlan();
  proto::Program* train = alone.mutable_program(0);
  train->mutable_actor(1)->clear_exchange();
  train->mutable_actor(1)->clear_boxing();
  train->mutable_actor(1)->set_kernel("copy");
  train->clear_issue();
  train->mutable_stream(1)->set_kind(proto::Stream::COMPUTE);
  const std::unique_ptr<Runtime> both = Make(alone);
  const std::unique_ptr<Runtime> second = Make(alone, {.ranks = {1, 2}});
  CHECK(second->ranks() == 1);
  CHECK(second->ArenaBytes(1) == 256);
  for (const auto* runtime : {&both, &second}) REQUIRE((*runtime)->Run("train", {}, 3).ok());
  const auto bytes = [](const Runtime& runtime) {
    const std::span<std::byte> w = runtime.PersistentBytes(1, 0);
    return std::vector<std::byte>(w.begin(), w.end());
  };
  CHECK(bytes(*both) == bytes(*second));

  const auto load = [](const proto::Plan& plan, RankRange ranks) {
    return Runtime::Create(plan, {.ranks = ranks, .make_kernel = MakeTestKernel}).status();
  };
  CHECK_THAT(Text(load(TwoRanksPlan(), {1, 2})),
             Catch::Contains("rank 0, which another process owns, exchanges tensors with ours"));
  CHECK_THAT(Text(load(alone, {1, 3})), Catch::Contains("ranks 1 to 2: are not all of the plan"));
}

TEST_CASE("mistakes are named") {
  const std::unique_ptr<Runtime> runtime = Make(ChainPlan());
  CHECK(Text(runtime->Run("evaluate", {}, 1)) ==
        "the plan has no program \"evaluate\"; it has init, train");
  CHECK(runtime->Run("train", {}, -1).code() == absl::StatusCode::kInvalidArgument);

  proto::Plan unknown = ChainPlan();
  unknown.mutable_program(1)->mutable_actor(1)->set_kernel("nonsense");
  const absl::Status status = Runtime::Create(unknown, {.make_kernel = MakeTestKernel}).status();
  CHECK(Text(status) == "program train, rank 0: actor dw: no kernel nonsense");

  proto::Plan mixed = ChainPlan();
  proto::Register fresh = mixed.program(1).register_(1);
  fresh.set_id(4), fresh.set_name("fresh"), fresh.set_offset(320);
  fresh.set_fill_mode(proto::Register::FRESH), fresh.set_fires_per_fill(1);
  *mixed.mutable_program(1)->add_register_() = fresh;
  mixed.mutable_program(1)->mutable_actor(1)->add_output(4);
  mixed.mutable_memory(0)->set_register_bytes(320), mixed.mutable_memory(0)->set_arena_bytes(384);
  CHECK_THAT(Text(Runtime::Create(mixed, {.make_kernel = MakeTestKernel}).status()),
             Catch::Contains("actor dw: adds to some of its outputs and overwrites others"));

  proto::Plan broken = ChainPlan();
  broken.mutable_program(1)->mutable_register_(1)->set_fires_per_fill(3);
  CHECK(Runtime::Create(broken, {.make_kernel = MakeTestKernel}).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oneflow
