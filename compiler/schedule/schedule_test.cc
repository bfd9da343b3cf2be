#include "compiler/schedule/schedule.h"

#include <catch2/catch.hpp>

#include "compiler/schedule/slots.h"
#include "oneflow_core/plan/plan_for_test.h"
#include "oneflow_core/plan/plan_net.h"
#include "oneflow_core/plan/verify_liveness.h"

namespace oneflow {
namespace {

std::string Orders(std::string_view name, int stages, int64_t micro_batches) {
  std::string text;
  for (int s = 0; s < stages; ++s) {
    text += ToString(FindSchedule(name)->order({stages, s, micro_batches})) + "\n";
  }
  return text;
}

int64_t Count(const StageOrder& order, Part part) {
  int64_t n = 0;
  for (const PartRun& run : order) {
    for (Part p : run.parts) n += p == part ? run.repeat : 0;
  }
  return n;
}

// Forwards whose backward has not come yet, at most.
int64_t InFlight(const StageOrder& order) {
  int64_t now = 0, most = 0;
  for (const PartRun& run : order) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      for (Part p : run.parts) most = std::max(most, now += p == Part::kForward ? 1 : -1);
    }
  }
  return most;
}

}  // namespace

TEST_CASE("the orders of four stages and eight micro-batches") {
  CHECK(Orders("1f1b", 4, 8) ==
        "F×4 (B F)×4 B×4\n"
        "F×3 (B F)×5 B×3\n"
        "F×2 (B F)×6 B×2\n"
        "F×1 (B F)×7 B×1\n");
  CHECK(Orders("gpipe", 2, 8) == "F×8 B×8\nF×8 B×8\n");
}

TEST_CASE("every order fires each segment once a micro-batch, 1f1b with few in flight") {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int64_t m = 1; m <= 7; ++m) {
      for (int s = 0; s < stages; ++s) {
        for (const char* name : {"gpipe", "1f1b", ""}) {
          const StageOrder order = FindSchedule(name)->order({stages, s, m});
          CHECK(Count(order, Part::kForward) == m);
          CHECK(Count(order, Part::kBackward) == m);
          for (const PartRun& run : order) CHECK(run.repeat > 0);
        }
        CHECK(InFlight(OneFOneBOrder({stages, s, m})) == std::min<int64_t>(m, stages - s));
        CHECK(InFlight(GPipeOrder({stages, s, m})) == m);
      }
    }
  }
}

TEST_CASE("an unknown schedule lists the known ones") {
  const absl::Status status = FindSchedule("zigzag").status();
  CHECK(status.message() == "schedule: \"zigzag\" is not known; use one of: 1f1b, gpipe");
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
  const int send = b.Segment("send", 1, {b.Actor("send", 1, {{h}}, {h1})});
  const int f1 = b.Segment("F", 1, {b.Actor("f1", 1, {{h1}}, {})});
  const int b1 = b.Segment("B", 1, {b.Actor("b1", 1, {{h1}}, {d})});
  const int back = b.Segment("back", 0, {b.Actor("back", 0, {{d}}, {d0})});
  const int b0 = b.Segment("B", 0, {b.Actor("b0", 0, {{d0}, {saved}}, {})});
  b.Stream("compute", 0, {{{f0}, 2}, {{b0, f0}, 4}, {{b0}, 2}});
  b.Stream("copy.backward", 0, {{{back}, 6}});
  b.Stream("compute", 1, {{{f1}, 1}, {{b1, f1}, 5}, {{b1}, 1}});
  b.Stream("copy.forward", 1, {{{send}, 6}});
  proto::Plan plan = b.Finish();
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  const auto slots = [&](int id) { return plan.program(0).register_(id).slots(); };
  CHECK(slots(saved) == 2);
  CHECK(slots(h) == 1);   // read by a copy long before the next is written
  CHECK(slots(h1) == 2);  // one kept from F to B, one on its way
  CHECK(slots(d) == 1);
  CHECK(slots(d0) == 2);
  const auto net = MakePlanNet(plan, plan.program(0));
  REQUIRE(net.ok());
  CHECK(VerifyLiveness(*net).ok());
}

TEST_CASE("streams that wait for each other get the slots that let them go on") {
  // The other stream reads all of a before any of b; ours writes them in turn.
  PlanBuilder b;
  const int x = b.Register("x"), y = b.Register("y");
  const int write = b.Segment("F", 0, {b.Actor("wx", 0, {}, {x}), b.Actor("wy", 0, {}, {y})});
  const int read_x = b.Segment("rx", 0, {b.Actor("rx", 0, {{x}}, {})});
  const int read_y = b.Segment("ry", 0, {b.Actor("ry", 0, {{y}}, {})});
  b.Stream("compute", 0, {{{write}, 6}});
  b.Stream("host.out", 0, {{{read_x}, 6}, {{read_y}, 6}});
  proto::Plan plan = b.Finish();
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  CHECK(plan.program(0).register_(x).slots() == 1);
  CHECK(plan.program(0).register_(y).slots() == 5);
  const auto net = MakePlanNet(plan, plan.program(0));
  CHECK(VerifyLiveness(*net).ok());
}

}  // namespace oneflow
