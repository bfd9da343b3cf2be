#include "compiler/schedule/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/order_file.h"
#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/slots.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

bool HasChunks(const StageOrder& order) {
  for (const TaskRun& run : order) {
    for (const Task& task : run.tasks) {
      if (task.chunk > 0) return true;
    }
  }
  return false;
}

// "F×3 (B F)×5 B×3"; tasks bear their chunk where the order has several.
std::string ToString(const StageOrder& order) {
  const bool chunks = HasChunks(order);
  std::string text;
  for (const TaskRun& run : order) {
    std::string names;
    for (const Task& task : run.tasks) {
      absl::StrAppend(&names, names.empty() ? "" : " ", TaskName(task, chunks));
    }
    if (run.tasks.size() > 1) names = absl::StrCat("(", names, ")");
    absl::StrAppend(&text, text.empty() ? "" : " ", names, "×", run.repeat);
  }
  return text;
}

std::string Orders(const Schedule& schedule, int stages, int64_t micro_batches) {
  std::string text;
  for (const StageOrder& order : MakeOrders(schedule, stages, micro_batches)) {
    text += ToString(order) + "\n";
  }
  return text;
}

Schedule Make(const std::string& name, const std::string& flags = "") {
  return MakeSchedule(MakeRecipe("--schedule=" + name + " " + flags), /*stages=*/4).value();
}

std::string Refusal(const std::string& flags) {
  return std::string(MakeSchedule(MakeRecipe(flags), /*stages=*/4).status().message());
}

std::map<std::pair<Part, int>, int64_t> Counts(const StageOrder& order) {
  std::map<std::pair<Part, int>, int64_t> counts;
  for (const TaskRun& run : order) {
    for (const Task& task : run.tasks) counts[{task.part, task.chunk}] += run.repeat;
  }
  return counts;
}

// Forwards whose `last` part has not come yet, at most.
int64_t InFlight(const StageOrder& order, Part last = Part::kBackward) {
  int64_t now = 0, most = 0;
  for (const Task& task : Unrolled(order)) {
    now += task.part == Part::kForward ? 1 : task.part == last ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

// Seconds that the step takes beyond the work of a stage, all chunks together being
// `stage_seconds`.
double Bubble(const Schedule& schedule, int stages, int64_t m, const TaskSeconds& stage_seconds) {
  const auto v = static_cast<double>(schedule.chunks);
  const TaskSeconds each{stage_seconds.forward / v, stage_seconds.backward / v,
                         stage_seconds.weights / v};
  const auto played =
      PlayOrders(MakeOrders(schedule, stages, m), schedule.chunks, Alike(stages, each)).value();
  const double work = stage_seconds.forward + stage_seconds.backward +
                      (schedule.splits_backward ? stage_seconds.weights : 0);
  double last = 0;
  for (const PlayedStep& stage : played[0]) last = std::max(last, stage.end);
  return last - static_cast<double>(m) * work;
}

}  // namespace

TEST_CASE("the orders of four stages and eight micro-batches") {
  CHECK(Orders(Make("1f1b"), 4, 8) ==
        "F×4 (B F)×4 B×4\n"
        "F×3 (B F)×5 B×3\n"
        "F×2 (B F)×6 B×2\n"
        "F×1 (B F)×7 B×1\n");
  CHECK(Orders(Make("gpipe"), 2, 8) == "F×8 B×8\nF×8 B×8\n");
  CHECK(Orders(Make("zero_bubble"), 4, 8) ==
        "F×4 (B W F)×4 (B W)×4\n"
        "F×3 (B F)×1 (B W F)×4 (B W)×3 W×1\n"
        "F×2 (B F)×2 (B W F)×4 (B W)×2 W×2\n"
        "F×1 (B F)×3 (B W F)×4 (B W)×1 W×3\n");
  CHECK(Orders(Make("interleaved"), 2, 4) ==
        "F0×2 F1×2 (F0 B1)×2 (F1 B0)×2 B1×2 B0×2\n"
        "F0×2 (F1 B1)×2 (F0 B0)×2 (F1 B1)×2 B0×2\n");
}

TEST_CASE("every order fires each segment once a micro-batch, and comes to its end") {
  const Schedule schedules[] = {Make("gpipe"),
                                Make("1f1b"),
                                Make("1f1b", "--extra_in_flight=3"),
                                Make("interleaved"),
                                Make("interleaved", "--chunks=3"),
                                Make("interleaved", "--extra_in_flight=3"),
                                Make("zero_bubble"),
                                Make("zero_bubble", "--extra_in_flight=2")};
  for (const Schedule& schedule : schedules) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 20, 41}) {
        INFO(schedule.name << " " << schedule.chunks << " " << stages << " " << m);
        const std::vector<StageOrder> orders = MakeOrders(schedule, stages, m);
        for (const StageOrder& order : orders) {
          const auto counts = Counts(order);
          CHECK(counts.size() == schedule.chunks * (schedule.splits_backward ? 3u : 2u));
          for (const auto& [task, count] : counts) CHECK(count == m);
          for (const TaskRun& run : order) CHECK(run.repeat > 0);
        }
        CHECK(PlayOrders(orders, schedule.chunks, Alike(stages, {}), 2).ok());
      }
    }
  }
}

TEST_CASE("so does zero bubble with any warm_ups whose forwards do not grow along the pipe") {
  for (int stages = 1; stages <= 5; ++stages) {
    for (const int64_t apart : {0, 1, 3, 9}) {
      Schedule schedule = Make("zero_bubble");
      for (int s = 0; s < stages; ++s)
        schedule.warm_ups.push_back({2 * (stages - s) - 1, apart * s});
      for (int64_t m : {1, 2, 3, 7, 20, 41}) {
        INFO(stages << " stages, " << m << " micro-batches, " << apart);
        const std::vector<StageOrder> orders = MakeOrders(schedule, stages, m);
        for (int s = 0; s < stages; ++s) {
          const auto counts = Counts(orders[s]);
          CHECK(counts.size() == 3);
          for (const auto& [task, count] : counts) CHECK(count == m);
          const auto& [forwards, backwards] = schedule.warm_ups[s];
          CHECK(InFlight(orders[s]) == std::min(m, forwards));
          CHECK(InFlight(orders[s], Part::kWeights) == std::min(m, forwards + backwards));
        }
        CHECK(PlayOrders(orders, 1, Alike(stages, {}), 2).ok());
      }
    }
  }
}

TEST_CASE("1f1b saves min(M, P - s) micro-batches on stage s, and what it is allowed beyond") {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int64_t m = 1; m <= 9; ++m) {
      for (int s = 0; s < stages; ++s) {
        CHECK(InFlight(OneFOneBOrder({stages, s, m})) == std::min<int64_t>(m, stages - s));
        const int64_t extra = s + 1 < stages ? 2 : 0;
        CHECK(InFlight(OneFOneBOrder({stages, s, m, 1, 2})) ==
              std::min<int64_t>(m, stages - s + extra));
        CHECK(InFlight(GPipeOrder({stages, s, m})) == m);
      }
    }
  }
}

TEST_CASE("equal stages idle as long as the formulas say") {
  const TaskSeconds work{1, 2};
  for (int p : {1, 2, 3, 4, 8}) {
    for (int64_t m : {8, 9, 16, 21, 40}) {
      INFO("p " << p << ", m " << m);
      const double one = 3.0 * (p - 1);  // (p - 1) / m of the ideal time 3 m
      CHECK(Bubble(Make("gpipe"), p, m, work) == Approx(one).margin(1e-9));
      CHECK(Bubble(Make("1f1b"), p, m, work) == Approx(one).margin(1e-9));
      for (int v : {2, 3, 4}) {
        CHECK(Bubble(Make("interleaved", absl::StrCat("--chunks=", v)), p, m, work) ==
              Approx(one / v).margin(1e-9));
      }
      // (p - 1) (F + B - W)
      CHECK(Bubble(Make("zero_bubble"), p, m, {1, 1, 1}) == Approx(p - 1.0).margin(1e-9));
    }
  }
}

TEST_CASE("zero bubble: what is held beyond P shortens the bubble to nothing") {
  for (int p : {2, 3, 4, 8}) {
    for (int64_t e = 0; e < p; ++e) {
      const Schedule schedule = Make("zero_bubble", absl::StrCat("--extra_in_flight=", e));
      const int64_t m = 3 * p;
      const std::vector<StageOrder> orders = MakeOrders(schedule, p, m);
      for (const StageOrder& order : orders) CHECK(InFlight(order, Part::kWeights) <= p + e);
      // From step to step, where no stage waits for the others' updates.
      const auto played = PlayOrders(orders, 1, Alike(p, {1, 1, 1}), 4).value();
      for (int s = 0; s < p; ++s) {
        CHECK(played[3][s].end - played[2][s].end == Approx(3.0 * m + (p - 1 - e)).margin(1e-9));
      }
    }
  }
}

TEST_CASE("more micro-batches repeat the steady part more often, in no more runs") {
  Schedule led = Make("zero_bubble");
  led.warm_ups = {{6, 0}, {5, 3}, {3, 6}, {1, 12}};
  for (const Schedule& schedule :
       {Make("1f1b"), Make("interleaved"), Make("interleaved", "--chunks=3"),
        Make("zero_bubble", "--extra_in_flight=2"), led}) {
    const int stages = 4;
    for (int64_t m : {401, 4000}) {
      const int64_t few = FewMicroBatches(schedule, stages, m);
      CHECK(few < 40);
      CHECK((m - few) % Period(schedule, stages) == 0);
      const auto small = MakeOrders(schedule, stages, few), all = MakeOrders(schedule, stages, m);
      for (int s = 0; s < stages; ++s) {
        CHECK(all[s].size() <= small[s].size() + 1);
        const Part last = schedule.splits_backward ? Part::kWeights : Part::kBackward;
        CHECK(InFlight(all[s], last) == InFlight(small[s], last));
      }
    }
    CHECK(FewMicroBatches(schedule, stages, 5) == 5);
  }
}

TEST_CASE(
    "a round of many micro-batches is written as long as one of few, and so one of many steps") {
  for (const char* name : {"2bw", "pipedream"}) {
    Schedule schedule = Make(name);
    const auto tasks_written = [&](int64_t steps, int64_t m) {
      schedule.rule.steps_a_round = steps;
      size_t tasks = 0;
      for (const StageOrder& order : MakeOrders(schedule, 4, m)) {
        for (const TaskRun& run : order) tasks += run.tasks.size();
      }
      return tasks;
    };
    CHECK(tasks_written(8, 4000) == tasks_written(8, 400));
    CHECK(tasks_written(4000, 2) <= tasks_written(400, 2));
  }
}

TEST_CASE("runs say what the list says") {
  const Task f{Part::kForward}, b{Part::kBackward}, f1{Part::kForward, 1};
  for (const std::vector<Task>& tasks :
       {std::vector<Task>{}, {f}, {f, f, b, f, b, f, b, b}, {f, f1, b, f, f1, b, f, f1}}) {
    CHECK(Unrolled(Compressed(tasks)) == tasks);
  }
  CHECK(ToString(Compressed({f, f, b, f, b, f, b, b})) == "F×2 (B F)×2 B×2");
  const Task u{Part::kUpdate};
  const auto steps = [&](int64_t pairs) {
    StageOrder order;
    for (int i = 0; i < 2; ++i) Append({{{f, b}, pairs}, {{u}, 1}}, &order);
    return order;
  };
  CHECK(ToString(Folded(steps(2))) == "(F B F B U)×2");
  CHECK(Folded(steps(9)) == steps(9));
}

TEST_CASE("orders that wait for each other are refused with the cycle") {
  const Task f{Part::kForward}, b{Part::kBackward};
  const auto dead =
      PlayOrders({Compressed({f, b, f, b}), Compressed({f, f, b, b})}, 1, Alike(2, {}));
  CHECK(dead.status().message() ==
        "the orders wait for each other: stage 0 stands at B0, which waits for B0 of stage 1; "
        "stage 1 stands at F1, which waits for F1 of stage 0");
}

TEST_CASE("unknown schedules and impossible numbers are refused") {
  CHECK(FindSchedule("zigzag").status().message() ==
        "schedule: \"zigzag\" is not known; use one of: 1f1b, gpipe, interleaved, zero_bubble, "
        "pipedream, 2bw");
  CHECK(Refusal("--chunks=2") ==
        "--chunks=2: schedule 1f1b has one chunk a stage; use --schedule=interleaved, or leave "
        "--chunks out");
  CHECK_THAT(Refusal("--schedule=interleaved --chunks=1"), Contains("needs at least two chunks"));
}

TEST_CASE("depths of zero bubble are those of the recipe") {
  const std::string flags = "--schedule=zero_bubble --micro_batches=8 --warm_ups=";
  const Schedule schedule = MakeSchedule(MakeRecipe(flags + "3+0,1+1"), /*stages=*/2).value();
  CHECK(Orders(schedule, 2, 8) ==
        "F×3 (B W F)×5 (B W)×3\n"
        "F×1 (B F)×1 (B W F)×6 (B W)×1 W×1\n");
  CHECK(Refusal("--schedule=1f1b --warm_ups=1+0") ==
        "--warm_ups: schedule 1f1b has no depths of its own; leave it out, so that it is chosen");
  CHECK_THAT(Refusal(flags + "3+0,1+1"), Contains("is of 2 stages, the mesh has 4"));
  CHECK_THAT(Refusal(flags + "4+0,3+0,0+0,1+0"), Contains("0+0 is out of range"));
  CHECK_THAT(Refusal(flags + "4+0,3+0,2+-1,1+0"), Contains("2+-1 is out of range"));
  CHECK_THAT(Refusal(flags + "1+0,3+0,2+0,1+0"), Contains("the orders wait for each other: "));
}

TEST_CASE("rules whose weights lag: rounds of steps, with U after each step's last backward") {
  const auto make = [](const std::string& flags, int stages) {
    return MakeSchedule(MakeRecipe("--schedule=" + flags), stages).value();
  };
  CHECK(Orders(make("pipedream --steps_a_round=2", 2), 2, 1) ==
        "(P F)×1 (P F B)×1 U×1 B×1 U×1\n"
        "(P F B U)×2\n");
  CHECK(Orders(make("2bw --steps_a_round=2", 2), 2, 2) ==
        "(P F)×1 (F B)×1 (P F B)×1 U×1 (F B)×1 B×1 U×1\n"
        "(P F B F B U)×2\n");
  CHECK(make("2bw", 2).rule.Versions(2, 0) == 2);
  CHECK(make("2bw", 2).rule.steps_a_round == 8);
  CHECK(make("pipedream", 16).rule.steps_a_round == 16);
  CHECK(make("pipedream", 6).rule.Versions(6, 0) == 8);
  CHECK(make("pipedream", 6).rule.Versions(6, 5) == 1);
}

TEST_CASE("rules that make no sense are refused") {
  CHECK(Refusal("--schedule=2bw --steps_a_round=3") ==
        "--steps_a_round=3: is no multiple of the 2 versions of the weights; use 2, 4, ...");
  CHECK_THAT(Refusal("--schedule=2bw --extra_in_flight=1"), StartsWith("--extra_in_flight=1: "));
  CHECK_THAT(Refusal("--schedule=2bw --staleness=1"), StartsWith("--staleness=1: schedule 2bw"));
  CHECK_THAT(Refusal("--schedule=gpipe --steps_a_round=4"),
             StartsWith("--steps_a_round=4: steps of schedule gpipe do not overlap"));
  CHECK_THAT(Refusal("--schedule=2bw --steps_a_round=65536 --micro_batches=16"),
             Contains("of 16 micro-batches are too many for one round"));
}

TEST_CASE("a user's own order is read as it stands") {
  const auto read = [](std::string_view text) {
    return MakeWritten(ParseOrder(text, "own.textproto").value()).value();
  };
  const Schedule schedule = read(
      "# 1f1b by hand\n"
      "stage { task: \"F0 F1\" task: \"B0 F2 B1 B2\" }\n"
      "stage { task: \"F0 B0  F1 B1 F2 B2\" }\n");
  CHECK(Orders(schedule, 2, 3) == "F×2 B×1 F×1 B×2\n(F B)×3\n");
  CHECK_FALSE(schedule.splits_backward);
  CHECK(CheckFits(schedule, 2, 3).ok());
  CHECK(
      CheckFits(schedule, 3, 3).message() ==
      "own.textproto: orders 2 stages, the mesh has 3; write one `stage` for each, or change pipe");
  CHECK(CheckFits(schedule, 2, 4).message() ==
        "own.textproto: orders 3 micro-batches, a step has 4; write the order of 4, or use "
        "--micro_batches=3 (times --sync_every)");
  const Schedule chunks = read("stage { task: \"F0 F0.1 B0.1 W0.1 B0 W0\" }");
  CHECK(chunks.chunks == 2);
  CHECK(chunks.splits_backward);
}

TEST_CASE("mistakes in an order file are told with their line") {
  const auto refusal = [](std::string_view text) {
    return std::string(ParseOrder(text, "f").status().message());
  };
  CHECK(refusal("") == "f: has no stage; see proto/order.proto");
  CHECK(refusal("stage {\n  tasks: \"F0\"\n}").find("f:2:") == 0);
  CHECK(
      refusal("stage {\n  task: \"F0 X0\"\n}") ==
      "f:2: stage 0: \"X0\" is no task; write F, B or W and the micro-batch, F3, of a chunk F3.1");
  for (const char* task : {"F", "F-1", "F0.", "F0.x", "F0.99999", "F0B0"}) {
    INFO(task);
    CHECK(refusal("stage { task: \"" + std::string(task) + "\" }").find("is no task") !=
          std::string::npos);
  }
  CHECK(refusal("stage {\n task: \"F0\"\n task: \"F2 B0\"\n}") ==
        "f:3: stage 0: F2 comes where F1 is due; a task takes its micro-batches in turn, so that "
        "all orders add up alike");
  CHECK(refusal("stage { task: \"F0 B0\" }\nstage { task: \"F0\" }") ==
        "f:2: stage 1: has 0 of the 1 micro-batches of B; every stage takes every micro-batch "
        "through each of its chunks once");
  CHECK_THAT(refusal("stage { task: \"F0 B0 W0\" }\nstage { task: \"F0 B0\" }"),
             StartsWith("f:2: stage 1: has 0 of the 1 micro-batches of W"));
  CHECK(refusal("stage { task: \"F0.1 B0\" }") ==
        "f:1: stage 0: has 0 of the 1 micro-batches of F of chunk 0; every stage takes every "
        "micro-batch through each of its chunks once; F3 is of chunk 0, F3.1 of chunk 1");
  CHECK_THAT(refusal("stage { task: \"F0 B0 B1\" }"),
             StartsWith("f:1: stage 0: has 1 of the 2 micro-batches of F;"));
  CHECK_THAT(refusal("stage { task: \"F0 W0 B0\" }"),
             Contains("stage 0 stands at W0, which waits for B0 of stage 0"));
  CHECK_THAT(refusal("stage { task: \"F0 F0.1 B0 B0.1\" }"),
             Contains("stage 0 stands at B0, which waits for B0.1 of stage 0"));
  CHECK(refusal("stage { task: \"F0 B0 F1 B1\" }\nstage { task: \"F0 F1 B0 B1\" }") ==
        "f: the orders wait for each other: stage 0 stands at B0, which waits for B0 of stage 1; "
        "stage 1 stands at F1, which waits for F1 of stage 0; change one of these orders");
}

TEST_CASE("a register that one stream touches gets exactly the slots of its order") {
  PlanBuilder b;
  const int saved = b.Register("saved"), passing = b.Register("passing"),
            unread = b.Register("unread");
  const int f = b.Actor("f", 0, {}, {saved, unread}), f2 = b.Actor("f2", 0, {{saved}}, {passing});
  const int f3 = b.Actor("f3", 0, {{passing}}, {}), g = b.Actor("g", 0, {{saved}}, {});
  const int forward = b.Segment("F", 0, {f, f2, f3}), backward = b.Segment("B", 0, {g});
  b.Stream("compute", 0, {{{forward}, 3}, {{backward, forward}, 5}, {{backward}, 3}});
  proto::Plan plan = b.Finish();
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  CHECK(plan.program(0).register_(saved).slots() == 3);
  CHECK(plan.program(0).register_(passing).slots() == 1);
  CHECK(plan.program(0).register_(unread).slots() == 1);
}

TEST_CASE("a pipeline fetches one fill ahead, and the step goes through") {
  PlanBuilder b({{"pipe", 2}});
  const int h = b.Register("h", 0), h1 = b.Register("h.to1", 1), saved = b.Register("saved", 0);
  const int d = b.Register("d", 1), d0 = b.Register("d.to0", 0);
  const int f0 = b.Segment("F", 0, {b.Actor("f0", 0, {}, {h, saved})});
  const int f1 = b.Segment("F", 1, {b.Actor("f1", 1, {{h1}}, {})});
  const int b1 = b.Segment("B", 1, {b.Actor("b1", 1, {{h1}}, {d})});
  const int b0 = b.Segment("B", 0, {b.Actor("b0", 0, {{d0}, {saved}}, {})});
  const auto there = b.SendReceive("h", {h}, h1), back = b.SendReceive("d", {d}, d0);
  b.Stream("compute", 0, {{{f0}, 2}, {{b0, f0}, 4}, {{b0}, 2}});
  b.Stream("send.forward", 0, {{{b.Segment("h.send", 0, {there.send})}, 6}});
  b.Stream("receive.backward", 0, {{{b.Segment("d", 0, {back.receive})}, 6}});
  b.Stream("compute", 1, {{{f1}, 1}, {{b1, f1}, 5}, {{b1}, 1}});
  b.Stream("receive.forward", 1, {{{b.Segment("h", 1, {there.receive})}, 6}});
  b.Stream("send.backward", 1, {{{b.Segment("d.send", 1, {back.send})}, 6}});
  proto::Plan plan = b.Finish();
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  const auto slots = [&](int id) { return plan.program(0).register_(id).slots(); };
  CHECK(slots(saved) == 2);
  CHECK(slots(h) == 1);   // sent long before the next is written
  CHECK(slots(h1) == 2);  // one kept from F to B, one on its way
  CHECK(slots(d) == 1);
  CHECK(slots(d0) == 2);
  const std::vector<double> seconds(plan.program(0).actor_size(), 1);
  const IssueOrders orders = PlayIssueOrders(plan, plan.program(0), seconds).value();
  plan.mutable_program(0)->clear_issue();
  for (const proto::IssueOrder& order : orders) {
    *plan.mutable_program(0)->add_issue() = order;
  }
  const auto net = MakePlanNet(plan, plan.program(0)).value();
  CHECK(VerifyLiveness(net).ok());
}

TEST_CASE("streams that wait for each other get the slots that let them go on") {
  // The other stream reads all of x before any of y; ours writes them in turn. What is fetched for
  // ours waits for a slot, too, but none would help.
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y"), fetched = b.Register("fetched");
  const int fetch = b.Segment("fetch", 0, {b.Actor("fetch", 0, {}, {fetched})});
  const int write =
      b.Segment("F", 0, {b.Actor("wx", 0, {{fetched}}, {x}), b.Actor("wy", 0, {}, {y})});
  const int read_x = b.Segment("rx", 0, {b.Actor("rx", 0, {{x}}, {})});
  const int read_y = b.Segment("ry", 0, {b.Actor("ry", 0, {{y}}, {})});
  b.Stream("host.in", 0, {{{fetch}, 6}});
  b.Stream("compute", 0, {{{write}, 6}});
  b.Stream("host.out", 0, {{{read_x}, 6}, {{read_y}, 6}});
  proto::Plan plan = b.Finish();
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  CHECK(plan.program(0).register_(x).slots() == 1);
  CHECK(plan.program(0).register_(y).slots() == 5);
  CHECK(plan.program(0).register_(fetched).slots() == 2);
  const auto net = MakePlanNet(plan, plan.program(0));
  CHECK(VerifyLiveness(*net).ok());
}

}  // namespace oneflow
