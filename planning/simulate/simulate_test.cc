#include "planning/simulate/simulate.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/exec/test_plans.h"
#include "planning/simulate/critical_path.h"
#include "planning/simulate/live_memory.h"
#include "planning/simulate/utilization.h"

namespace oneflow {
namespace {

using Span = SimulatedRun::Span;

SimulatedRun Run(const proto::Plan& plan, const SimulateOptions& options) {
  return Simulate(plan, "train", options).value();
}

std::vector<Span> ListSpans(const SimulatedRun& run, int actor, int rank = 0) {
  const int32_t concrete = run.net.Find(rank, actor);
  return {run.spans.begin() + run.first[concrete], run.spans.begin() + run.first[concrete + 1]};
}

// Actors x, dw, w of ChainPlan.
const SimulateOptions kChainTimes = {.steps = 1, .actor_seconds = {1, 3, 2}};

TEST_CASE("a chain: data waits for slots, compute for data") {
  const SimulatedRun run = Run(ChainPlan(), kChainTimes);
  CHECK(ListSpans(run, 0) == std::vector<Span>{{0, 1}, {1, 2}, {4, 5}, {7, 8}});
  CHECK(ListSpans(run, 1) == std::vector<Span>{{1, 4}, {4, 7}, {7, 10}, {10, 13}});
  CHECK(ListSpans(run, 2) == std::vector<Span>{{13, 15}});
  CHECK(run.StepSeconds() == 15);
}

TEST_CASE("the next step begins where slots allow, so steps among others are shorter") {
  SimulateOptions options = kChainTimes;
  options.steps = 3;
  const SimulatedRun run = Run(ChainPlan(), options);
  CHECK(run.step_ends == std::vector<double>{15, 29, 43});
  CHECK(run.StepSeconds() == 14);
  SimulatedRun rounds = run;
  rounds.steps_a_round = 7;
  CHECK(rounds.StepSeconds() == 2);
  CHECK(ListSpans(run, 0)[4] == Span{10, 11});
  const Utilization use = FindUtilization(run);
  CHECK(use.devices == std::vector<DeviceTime>{{.compute = 14}});
  CHECK(use.bubble == 0);
}

TEST_CASE("actors and messages that take forever are refused") {
  SimulateOptions options = kChainTimes;
  options.message_seconds = INFINITY;
  const auto message = Simulate(ChainPlan(), "train", options);
  CHECK_THAT(std::string(message.status().message()), Catch::Contains("a message: takes inf"));
  options = kChainTimes;
  options.actor_seconds[1] = INFINITY;
  const auto actor = Simulate(ChainPlan(), "train", options);
  CHECK_THAT(std::string(actor.status().message()), Catch::Contains("dw: takes inf seconds"));
}

TEST_CASE("an exchange between processes keeps the worker for the worker's part alone") {
  // g, its sum over devices, and what is done with that.
  SimulateOptions options{.actor_seconds = {2, 1, 0.5}, .link_seconds = {0, 3, 0}};
  options.worker_a_device = true;
  const SimulatedRun run = Run(TwoRanksPlan(), options);
  // The second g is computed while the first is on its link.
  CHECK(ListSpans(run, 0)[0] == Span{0, 2});
  CHECK(ListSpans(run, 0)[1] == Span{2, 4});
  CHECK(ListSpans(run, 1)[0] == Span{2, 6});
  options.link_seconds.clear();
  options.actor_seconds[1] = 4;
  const SimulatedRun near = Run(TwoRanksPlan(), options);
  CHECK(ListSpans(near, 1)[0] == Span{2, 6});
  CHECK(ListSpans(near, 0)[1] == Span{6, 8});
  CHECK(run.seconds() < near.seconds());

  options.link_seconds = {0, INFINITY, 0};
  const auto endless = Simulate(TwoRanksPlan(), "train", options);
  CHECK_THAT(std::string(endless.status().message()), Catch::Contains("g.sum: takes inf seconds"));
}

TEST_CASE("a worker that is busy when packets arrive does its part afterwards") {
  SimulateOptions options{.actor_seconds = {5, 1, 0.5}, .link_seconds = {0, 3, 0}};
  options.worker_a_device = true;
  const SimulatedRun run = Run(TwoRanksPlan(), options);
  CHECK(ListSpans(run, 0)[1] == Span{5, 10});
  CHECK(ListSpans(run, 1)[0] == Span{5, 11});  // here at 8
}

TEST_CASE("a message takes its time, on separate streams and on a worker a device") {
  SimulateOptions options = kChainTimes;
  options.message_seconds = 0.5;
  for (const bool shared : {false, true}) {
    options.worker_a_device = shared;  // the host's stream always has a separate worker
    const SimulatedRun run = Run(ChainPlan(), options);
    CHECK(ListSpans(run, 0)[2] == Span{5, 6});
    CHECK(ListSpans(run, 1)[0] == Span{1.5, 4.5});
    CHECK(run.StepSeconds() == 15.5);
    CHECK(FindCriticalPath(run).slack[0] == 0);
  }
}

TEST_CASE("one device stands for its peers; a copy stream overlaps compute unless they share") {
  SimulateOptions options = {.steps = 1, .actor_seconds = {2, 5, 1}};
  SimulatedRun run = Run(TwoRanksPlan(), options);
  CHECK(run.net.own.size() == 1);
  CHECK(ListSpans(run, 0) == std::vector<Span>{{0, 2}, {2, 4}, {8, 10}});
  CHECK(ListSpans(run, 1) == std::vector<Span>{{2, 7}, {8, 13}, {14, 19}});
  CHECK(ListSpans(run, 2) == std::vector<Span>{{7, 8}, {13, 14}, {19, 20}});
  options.worker_a_device = true;
  run = Run(TwoRanksPlan(), options);
  // All firings one after the other: 3 times 2 + 5 + 1.
  CHECK(run.seconds() == 24);
}

TEST_CASE("streams of one worker take turns") {
  const proto::Plan plan = PlanFromText(R"plan(
    version: 2 stage_axis: -1 kernel_threads: 1 model: "two streams" memory {}
    program {
      name: "train" micro_batches: 3 micro_batch_size: 1
      actor { id: 0 name: "a" kernel: "ones" }
      actor { id: 1 name: "b" kernel: "ones" }
      segment { id: 0 name: "F" actor: 0 }
      segment { id: 1 name: "copy" actor: 1 }
      stream { id: 0 name: "compute" order { segment: 0 repeat: 3 } }
      stream { id: 1 name: "copy.forward" order { segment: 1 repeat: 3 } }
    })plan");
  SimulateOptions options = {.steps = 1, .actor_seconds = {1, 2}, .worker_a_device = true};
  const SimulatedRun run = Run(plan, options);
  CHECK(ListSpans(run, 0) == std::vector<Span>{{0, 1}, {3, 4}, {6, 7}});
  CHECK(ListSpans(run, 1) == std::vector<Span>{{1, 3}, {4, 6}, {7, 9}});
}

// Of one stream: actor a, then b `times` times, in each step.
proto::Plan ShortKernelsPlan(int times) {
  return PlanFromText(absl::StrReplaceAll(R"plan(
    version: 2 stage_axis: -1 kernel_threads: 1 model: "short kernels" memory {}
    program {
      name: "train" micro_batches: N micro_batch_size: 1
      actor { id: 0 name: "a" kernel: "ones" }
      actor { id: 1 name: "b" kernel: "ones" }
      segment { id: 0 name: "A" actor: 0 }
      segment { id: 1 name: "B" actor: 1 }
      stream {
        id: 0 name: "compute" order { segment: 0 repeat: 1 } order { segment: 1 repeat: N }
      }
    })plan",
                                          {{"N", absl::StrCat(times)}}));
}

TEST_CASE("a step of kernels shorter than their issuing takes as long as issuing them") {
  SimulateOptions options = {.steps = 2, .actor_seconds = {0.25, 0.25}, .issue_seconds = 1};
  const SimulatedRun run = Run(ShortKernelsPlan(8), options);
  CHECK(run.StepSeconds() == 9);
  CHECK(run.step_ends == std::vector<double>{9.25, 18.25});
  // Until it has been issued the device is idle.
  CHECK(ListSpans(run, 0)[0] == Span{1, 1.25});
  CHECK(ListSpans(run, 1)[0] == Span{2, 2.25});
  // Longer ones begin as soon as the first has been issued, one after the other.
  options.actor_seconds = {2, 2};
  CHECK(Run(ShortKernelsPlan(8), options).step_ends == std::vector<double>{19, 37});
  options.issue_seconds = 0;
  CHECK(Run(ShortKernelsPlan(8), options).step_ends == std::vector<double>{18, 36});
}

TEST_CASE("the host is ahead after a long kernel, so that many short ones run at their own pace") {
  SimulateOptions options = {.steps = 1, .actor_seconds = {10, 0.25}, .issue_seconds = 1};
  CHECK(Run(ShortKernelsPlan(8), options).seconds() == 1 + 10 + 8 * 0.25);
  // Until the host is no longer ahead: the last of 21 firings has been issued after 21 s.
  CHECK(Run(ShortKernelsPlan(20), options).seconds() == 21 + 0.25);
  // It is at most 1,024 firings ahead: at 5,001 s, when the long kernel ends, the last of them has
  // just been issued, and the last of 2,000 976 s later, without a limit already at 2,001 s.
  options.actor_seconds[0] = 5000;
  CHECK(Run(ShortKernelsPlan(1024), options).seconds() == 5001 + 1024 * 0.25);
  CHECK(Run(ShortKernelsPlan(2000), options).seconds() == 5001 - 1024 + 2000 + 0.25);
}

TEST_CASE("the host issues nothing of what it does itself") {
  // x is on the host's stream, dw and w are not: they are issued while x is under way.
  SimulateOptions options = kChainTimes;
  options.issue_seconds = 0.5;
  const SimulatedRun run = Run(ChainPlan(), options);
  CHECK(ListSpans(run, 0) == std::vector<Span>{{0, 1}, {1, 2}, {4, 5}, {7, 8}});
  CHECK(run.StepSeconds() == 15);
}

TEST_CASE("the time of a link shows") {
  // x, x.recv, dx, dw1, w1, dx.recv, w0, the sends; F of 1, B of stage 1 of 2 and U free.
  SimulateOptions options = {.steps = 1, .actor_seconds = {1, 0, 2, 0, 0, 0, 1, 0, 0}};
  const double free = Run(TwoStagesPlan(), options).seconds();
  options.actor_seconds[1] = options.actor_seconds[7] = 0.25;
  const double slow = Run(TwoStagesPlan(), options).seconds();
  CHECK(free == 1 + 4 * 2 + 1);
  // Once at the begin, and once more where F of micro-batch 2 waits for B of 0: two micro-batches
  // in flight are enough for free links only.
  CHECK(slow == free + 2 * 0.25);
}

TEST_CASE("the critical path, and how late the others could be") {
  const SimulatedRun run = Run(ChainPlan(), kChainTimes);
  const CriticalPath path = FindCriticalPath(run);
  std::vector<std::pair<int32_t, int64_t>> firings;
  for (const CriticalFiring& f : path.firings) firings.push_back({f.actor, f.firing});
  CHECK(firings ==
        std::vector<std::pair<int32_t, int64_t>>{{0, 0}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}});
  CHECK(path.slack == std::vector<double>{0, 0, 0});
  // A faster reader: data is all that counts; each sum has 0.9 s to spare but the last.
  const SimulatedRun waiting = Run(ChainPlan(), {.steps = 1, .actor_seconds = {1, 0.1, 0.2}});
  CHECK(waiting.seconds() == Approx(4.3));
  CHECK(FindCriticalPath(waiting).firings.size() == 6);
}

TEST_CASE("slack is the time that no later firing needs") {
  // dw1 and w1 of stage 1 are not on the path: only the last B of stage 0 is.
  const SimulatedRun run =
      Run(TwoStagesPlan(), {.steps = 1, .actor_seconds = {1, 0, 2, 0, 0.25, 0, 1, 0, 0}});
  const CriticalPath path = FindCriticalPath(run);
  CHECK(path.slack[run.net.Find(1, 4)] == 0.75);
  CHECK(path.slack[run.net.Find(0, 6)] == 0);
}

TEST_CASE("a slot is in use from the firing that fills it to the last that reads it") {
  const SimulatedRun run = Run(ChainPlan(), kChainTimes);
  const std::vector<LiveMemory> memory = FindLiveMemory(ChainPlan(), run);
  REQUIRE(memory.size() == 1);
  CHECK(memory[0].peak_bytes == 192);
  using Point = LiveMemory::Point;
  CHECK(memory[0].curve ==
        std::vector<Point>{{0, 64}, {1, 192}, {4, 192}, {7, 192}, {10, 128}, {13, 64}, {15, 0}});
  // Coarse: the highest of each piece.
  CHECK(Coarsened(memory[0], run, 3) == std::vector<Point>{{0, 192}, {7, 192}, {10, 128}});
}

// By stream, the actors that it fired, in order.
using Order = std::map<std::pair<int, std::string>, std::vector<std::string>>;

TEST_CASE("every stream fires in the order of the runtime, and as often") {
  for (const proto::Plan& plan : {ChainPlan(), TwoStagesPlan()}) {
    const proto::Program& program = plan.program(1);
    const SimulatedRun run =
        Run(plan, {.steps = 2, .actor_seconds = std::vector<double>(program.actor_size(), 1)});
    std::map<std::string, std::pair<int, std::string>> stream_of;
    Order simulated, fired;
    for (const int32_t actor : run.order) {
      if (run.net.member_of[actor].exchange >= 0) continue;  // has no kernel that could record it
      const StreamOrder& stream = run.net.streams[run.net.stream_of[actor]];
      const std::string& name = run.net.names[run.net.specs[actor].actor];
      stream_of[name] = {stream.rank, stream.name};
      simulated[stream_of[name]].push_back(name);
    }
    const auto record = [&](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
      return Kernel([&fired, &stream_of, name = setup.name](const KernelCall&) {
        fired[stream_of[name]].push_back(name);
        return absl::OkStatus();
      });
    };
    const auto runtime =
        Runtime::Create(plan, Interleaved(7, {.make_kernel = record, .trace = true})).value();
    REQUIRE(runtime->Run("train", {}, 2).ok());
    int firings = 0;
    const proto::ProcessTrace trace = runtime->TraceEvents();
    for (const auto& of_stream : trace.firings()) firings += of_stream.begin_size();
    CHECK(static_cast<int>(run.order.size()) == firings);
    CHECK(simulated == fired);
  }
}

TEST_CASE("options out of range are refused") {
  const proto::Plan plan = ChainPlan();
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL}) {
    const absl::Status issuing =
        Simulate(plan, "train", {.actor_seconds = {1, 1, 1}, .issue_seconds = seconds}).status();
    CHECK(issuing.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(issuing.message()), Catch::Contains("check firing_seconds"));
  }
  CHECK(Simulate(plan, "train", {.steps = 0, .actor_seconds = {1, 1, 1}}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(Simulate(plan, "train", {.steps = 1, .actor_seconds = {1, -1, 1}}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK(Simulate(plan, "train", {.actor_seconds = {1, 1, 1}, .message_seconds = seconds})
              .status()
              .code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK_THAT(
      std::string(Simulate(plan, "train", {.steps = int64_t{1} << 40, .actor_seconds = {1, 1, 1}})
                      .status()
                      .message()),
      Catch::Contains("--steps=1099511627776: are too many"));
  CHECK(Simulate(plan, "eval", {.steps = 1}).status().code() == absl::StatusCode::kNotFound);
  const absl::Status played =
      Simulate(plan, "train", {.steps = 9, .actor_seconds = {1, 1, 1}, .most_firings = 5}).status();
  CHECK(played.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(played.message()), Catch::Contains("has more than 5 firings in 9 steps"));
}

}  // namespace
}  // namespace oneflow
