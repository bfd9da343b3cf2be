// Orders of issue: exchanges in the order in which they begin by the clock, how that order goes on
// with more micro-batches, and that all stages can go on in it.
#include "compiler/schedule/issue_order.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/net/random_program.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// "stage 0: (h.send d)×2 d"
std::string Text(const proto::Plan& plan, const IssueOrders& orders) {
  std::string text;
  for (const proto::IssueOrder& order : orders) {
    text += "stage " + std::to_string(order.stage()) + ":";
    for (const proto::ActorRun& run : order.run()) {
      std::string names;
      for (const int a : run.actor()) {
        names += (names.empty() ? "" : " ") + plan.program(0).actor(a).name();
      }
      if (run.repeat() > 1 && run.actor_size() > 1) names = "(" + names + ")";
      text += " " + names + (run.repeat() > 1 ? "×" + std::to_string(run.repeat()) : "");
    }
    text += "\n";
  }
  return text;
}

IssueOrders Played(const proto::Plan& plan, const std::vector<double>& seconds) {
  return PlayIssueOrders(plan, plan.program(0), seconds).value();
}

// True if all stages go through a step in these orders.
bool IsLive(proto::Plan plan, const IssueOrders& orders) {
  plan.mutable_program(0)->clear_issue();
  for (const proto::IssueOrder& order : orders) *plan.mutable_program(0)->add_issue() = order;
  const PlanNet net = MakePlanNet(plan, plan.program(0)).value();
  return VerifyProgramTypes(net).ok() && VerifyLiveness(net).ok();
}

void Alone(PlanBuilder& b, const std::string& stream, int actor, int times = 1) {
  const proto::Actor& a = b.program().actor(actor);
  b.Stream(stream, a.stage(), {{{b.Segment(a.name(), a.stage(), {actor})}, times}});
}

// f and g of stage 0 write x and y, which are sent to stage 1 and summed there.
proto::Plan TwoTensors() {
  PlanBuilder b({{"pipe", 2}, {"data", 2}});
  const int x = b.Register("x"), y = b.Register("y"), x1 = b.Register("x1", 1),
            y1 = b.Register("y1", 1), sum = b.Register("sum", 1);
  Alone(b, "compute", b.Actor("f", 0, {}, {x}));  // 0
  Alone(b, "compute", b.Actor("g", 0, {}, {y}));  // 1
  const auto of_x = b.SendReceive("x", {x}, x1);  // 2, 3
  const auto of_y = b.SendReceive("y", {y}, y1);  // 4, 5
  for (const int actor : {of_x.send, of_y.send}) Alone(b, "send", actor);
  for (const int actor : {of_x.receive, of_y.receive}) Alone(b, "receive", actor);
  Alone(b, "copy", b.AllReduce("sum", 1, {1}, {x1}, sum));  // 6
  Alone(b, "compute", b.Actor("h", 1, {{sum}, {y1}}, {}));
  return b.Finish();
}

}  // namespace

TEST_CASE("exchanges are issued as they begin by the clock") {
  const proto::Plan plan = TwoTensors();
  CHECK(Text(plan, Played(plan, {1, 3, 1, 1, 1, 1, 1, 1})) ==
        "stage 0: x.send y.send\n"
        "stage 1: x sum y\n");
  CHECK(Text(plan, Played(plan, {1, 3, 2.5, 2.5, 1, 1, 1, 1})) ==
        "stage 0: x.send y.send\n"
        "stage 1: x y sum\n");
  CHECK(Text(plan, Played(plan, {3, 1, 1, 1, 1, 1, 1, 1})) ==
        "stage 0: y.send x.send\n"
        "stage 1: y x sum\n");
}

TEST_CASE("a program without exchanges has no order of issue") {
  PlanBuilder b;
  Alone(b, "compute", b.Actor("f", 0, {}, {}));
  const proto::Plan plan = b.Finish();
  CHECK(Played(plan, {1}).empty());
}

TEST_CASE("an order of issue ends where the game sticks") {
  // g waits for what only h, after it, writes.
  PlanBuilder b({{"data", 2}});
  const int x = b.Register("x"), sum = b.Register("sum"), y = b.Register("y"),
            late = b.Register("late");
  Alone(b, "compute", b.Actor("f", 0, {}, {x}));
  b.Stream("compute", 0,
           {{{b.Segment("S", 0, {b.Actor("g", 0, {{y}}, {}), b.Actor("h", 0, {}, {y})})}, 1}});
  Alone(b, "copy", b.AllReduce("x.sum", 0, {0}, {x}, sum));
  Alone(b, "copy", b.AllReduce("y.sum", 0, {0}, {y}, late));
  const proto::Plan plan = b.Finish();
  CHECK(Text(plan, Played(plan, {1, 1, 1, 1, 1})) == "stage 0: x.sum\n");
}

namespace {

// 1F1B on two stages: 0 sends h, 1 sends back d.
proto::Plan Pipeline(int micro_batches) {
  const int m = micro_batches;
  PlanBuilder b({{"pipe", 2}});
  const int h = b.Register("h", 0), h1 = b.Register("h1", 1, 2), saved = b.Register("saved", 0, 2),
            d = b.Register("d", 1), d0 = b.Register("d0", 0, 2);
  const int f0 = b.Segment("F", 0, {b.Actor("f0", 0, {}, {h, saved})});
  const int b0 = b.Segment("B", 0, {b.Actor("b0", 0, {{d0}, {saved}}, {})});
  const int f1 = b.Segment("F", 1, {b.Actor("f1", 1, {{h1}}, {})});
  const int b1 = b.Segment("B", 1, {b.Actor("b1", 1, {{h1}}, {d})});
  const auto there = b.SendReceive("h", {h}, h1), back = b.SendReceive("d", {d}, d0);
  b.Stream("compute", 0, {{{f0}, 2}, {{b0, f0}, m - 2}, {{b0}, 2}});
  b.Stream("compute", 1, {{{f1}, 1}, {{b1, f1}, m - 1}, {{b1}, 1}});
  for (const auto& pair : {there, back}) {
    Alone(b, "send", pair.send, m);
    Alone(b, "receive", pair.receive, m);
  }
  return b.Finish();
}

const std::vector<double> kPipelineSeconds = {1, 2, 1, 2, 0.25, 0.25, 0.25, 0.25};

}  // namespace

TEST_CASE("the order of a few micro-batches goes on as it repeats itself") {
  const auto of = [](int m) { return Played(Pipeline(m), kPipelineSeconds); };
  // Two micro-batches go forward while two come back.
  CHECK(Text(Pipeline(6), of(6)) ==
        "stage 0: (h.send h.send d d)×3\n"
        "stage 1: (h h d.send d.send)×3\n");
  CHECK_FALSE(Extended(of(6), of(7), 92));
  const std::optional<IssueOrders> extended = Extended(of(6), of(8), 46);
  REQUIRE(extended);
  CHECK(Text(Pipeline(98), *extended) == Text(Pipeline(98), of(98)));
  CHECK(IsLive(Pipeline(98), *extended));
  CHECK_FALSE(IsLive(Pipeline(98), of(96)));
}

TEST_CASE("steps of a round are written one after another, where they go on inside of each") {
  // Two steps of m micro-batches each.
  const auto round = [](int m) {
    PlanBuilder b({{"data", 2}});
    const int x = b.Register("x"), sum = b.Register("sum"), y = b.Register("y"),
              norm = b.Register("norm");
    const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x})});
    const int u = b.Segment("U", 0, {b.Actor("u", 0, {}, {y})});
    const int of_f = b.Segment("S", 0, {b.AllReduce("sum", 0, {0}, {x}, sum)});
    const int of_u = b.Segment("N", 0, {b.AllReduce("norm", 0, {0}, {y}, norm)});
    PlanBuilder::Order compute, copy;
    for (int step = 0; step < 2; ++step) {
      compute.insert(compute.end(), {{{f}, m}, {{u}, 1}});
      copy.insert(copy.end(), {{{of_f}, m}, {{of_u}, 1}});
    }
    b.Stream("compute", 0, compute);
    b.Stream("copy", 0, copy);
    return b.Finish();
  };
  const auto of = [&](int m) { return Played(round(m), {1, 1, 1, 1}); };
  CHECK(Text(round(3), of(3)) == "stage 0: (sum sum sum norm)×2\n");
  const std::optional<IssueOrders> extended = Extended(of(3), of(4), 97);
  REQUIRE(extended);
  CHECK(Text(round(100), *extended) == "stage 0: sum×100 norm sum×100 norm\n");
  CHECK(IsLive(round(100), *extended));
}

TEST_CASE("orders that are not written alike are not gone on with") {
  const auto order = [](const std::vector<std::pair<std::vector<int>, int>>& runs) {
    proto::IssueOrder order;
    for (const auto& [actors, repeat] : runs) {
      proto::ActorRun& run = *order.add_run();
      run.mutable_actor()->Add(actors.begin(), actors.end());
      run.set_repeat(repeat);
    }
    return order;
  };
  const IssueOrders few = {order({{{1, 2}, 3}, {{1}, 2}}), order({{{7}, 5}})};
  const auto extended = Extended(few, {order({{{1, 2}, 5}, {{1}, 2}}), order({{{7}, 6}})}, 10);
  REQUIRE(extended);
  REQUIRE(extended->size() == 2);
  CHECK((*extended)[0].SerializeAsString() == order({{{1, 2}, 23}, {{1}, 2}}).SerializeAsString());
  CHECK((*extended)[1].SerializeAsString() == order({{{7}, 15}}).SerializeAsString());
  const proto::IssueOrder last = few[1];
  CHECK_FALSE(Extended(few, {few[0]}, 1));                                   // a stage less
  CHECK_FALSE(Extended(few, {order({{{1, 2}, 4}}), last}, 1));               // a run less
  CHECK_FALSE(Extended(few, {order({{{2, 1}, 4}, {{1}, 2}}), last}, 1));     // others
  CHECK_FALSE(Extended(few, {order({{{1, 2, 1}, 4}, {{1}, 2}}), last}, 1));  // more of them
  CHECK_FALSE(Extended(few, {order({{{1, 2}, 4}, {{1}, 1}}), last}, 1));     // less often
}

TEST_CASE("all stages go on in the order of issue of any clock, if they can in any order") {
  int live = 0, exchanges = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const proto::Plan plan = RandomProgram(seed);
    // Drawn with orders that a game without a clock took.
    if (!VerifyPlanTypes(plan).ok() ||
        !IsLive(plan, {plan.program(0).issue().begin(), plan.program(0).issue().end()})) {
      continue;
    }
    ++live;
    exchanges += plan.program(0).issue_size() > 0;
    std::mt19937 random(seed);
    for (int clock = 0; clock < 3; ++clock) {
      std::vector<double> seconds;
      for (int a = 0; a < plan.program(0).actor_size(); ++a) {
        seconds.push_back(static_cast<double>(random() % 8));
      }
      INFO("seed " << seed);
      CHECK(IsLive(plan, Played(plan, seconds)));
    }
  }
  CHECK(live > 300);
  CHECK(exchanges * 5 > live);
}

}  // namespace oneflow
