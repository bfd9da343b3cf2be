// Tokens from sends to receives: who is told of what, and that they cost no time.
#include "compiler/schedule/tell_receives.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/schedule/slots.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {
namespace {

// A plan of one program, and what stands in each of its segments.
struct Example {
  PlanBuilder b{{{"pipe", 2}}};
  std::vector<SegmentInfo> segments;

  int Add(const std::string& name, int stage, int actor, SegmentInfo info) {
    segments.push_back(info);
    return b.Segment(name, stage, {actor});
  }
  // On a stream of its own, `times` a step.
  void Alone(int actor, SegmentInfo info, int times) {
    const proto::Actor& a = b.program().actor(actor);
    b.Stream(a.kernel(), a.stage(), {{{Add(a.name(), a.stage(), actor, info)}, times}});
  }
  // Three actors of the update: makes a tensor, sends it to the other stage, receives it there.
  void Update(const std::string& name, int from, int64_t elements, int times = 1) {
    const Task u{Part::kUpdate};
    const int x = b.Register(name, from, 1, elements);
    const int there = b.Register(name + ".there", 1 - from, 1, elements);
    const int make = b.Actor("make." + name, from, {}, {x});
    b.Stream("compute", from, {{{Add("U", from, make, {Lane::kCompute, u})}, times}});
    const auto pair = b.SendReceive(name, {x}, there);
    Alone(pair.send, {Lane::kSendUpdate, u, 1, 1 - from}, times);
    Alone(pair.receive, {Lane::kReceiveUpdate, u, 1, from}, times);
  }
};

// Exchanges as they begin by the clock.
std::string Begun(const proto::Plan& plan, const proto::Program& program,
                  const std::vector<double>& seconds) {
  const PlanNet net = MakePlanNet(plan, program).value();
  std::string text;
  const auto begin = [&](int actor, double) {
    if (program.actor(actor).has_exchange()) text += program.actor(actor).name() + " ";
  };
  PlayByClock(net, seconds, begin, [](int, double) {});
  return text;
}

// "h.send -> d slots=2 turns=0"
std::string Tokens(const proto::Program& program) {
  std::string text;
  for (const proto::Actor& receive : program.actor()) {
    for (const proto::Input& input : receive.input()) {
      const proto::Register& r = program.register_(input.register_());
      if (r.slot_bytes() > 0) continue;
      for (const proto::Actor& send : program.actor()) {
        for (const int id : send.output()) {
          if (id != r.id()) continue;
          text += send.name() + " -> " + receive.name() + " slots=" + std::to_string(r.slots()) +
                  " turns=" + std::to_string(input.initial_fills()) + "\n";
        }
      }
    }
  }
  return text;
}

// With slots counted, and tokens.
proto::Program Notified(const proto::Plan& plan, const std::vector<SegmentInfo>& segments,
                        const std::vector<double>& seconds) {
  Lowered lowered{plan.program(0), segments};
  REQUIRE(SetSlots(plan, &lowered.program).ok());
  const std::string before = Begun(plan, lowered.program, seconds);
  REQUIRE(TellReceives(plan, seconds, &lowered).ok());
  REQUIRE(SetSlots(plan, &lowered.program).ok());
  CHECK(Begun(plan, lowered.program, seconds) == before);
  return lowered.program;
}

}  // namespace

TEST_CASE("what comes back for a micro-batch is told of the send that went for it, at no cost") {
  // 1F1B on two stages: 0 sends h and has two micro-batches in flight, 1 sends back d.
  constexpr int kMicroBatches = 8;
  const Task f{Part::kForward}, back{Part::kBackward};
  Example e;
  const int h = e.b.Register("h", 0), h1 = e.b.Register("h1", 1), d = e.b.Register("d", 1),
            d0 = e.b.Register("d0", 0);
  const int f0 = e.Add("F", 0, e.b.Actor("f0", 0, {}, {h}), {Lane::kCompute, f});
  const int b0 = e.Add("B", 0, e.b.Actor("b0", 0, {{d0}}, {}), {Lane::kCompute, back});
  const int f1 = e.Add("F", 1, e.b.Actor("f1", 1, {{h1}}, {}), {Lane::kCompute, f});
  const int b1 = e.Add("B", 1, e.b.Actor("b1", 1, {{h1}}, {d}), {Lane::kCompute, back});
  e.b.Stream("compute", 0, {{{f0}, 2}, {{b0, f0}, kMicroBatches - 2}, {{b0}, 2}});
  e.b.Stream("compute", 1, {{{f1}, 1}, {{b1, f1}, kMicroBatches - 1}, {{b1}, 1}});
  const auto there = e.b.SendReceive("h", {h}, h1), here = e.b.SendReceive("d", {d}, d0);
  e.Alone(there.send, {Lane::kSendForward, f, 1, 1}, kMicroBatches);
  e.Alone(there.receive, {Lane::kReceiveForward, f, 1, 0}, kMicroBatches);
  e.Alone(here.send, {Lane::kSendBackward, back, 1, 0}, kMicroBatches);
  e.Alone(here.receive, {Lane::kReceiveBackward, back, 1, 1}, kMicroBatches);
  e.b.program().set_micro_batches(kMicroBatches);
  const proto::Plan plan = e.b.Finish();
  // Stage 1 takes longer: both sends are over before the first gradient is there.
  const std::vector<double> seconds = {1, 2, 3, 6, 0.5, 0.5, 0.5, 0.5};
  CHECK_THAT(Begun(plan, Notified(plan, e.segments, seconds), seconds),
             Catch::StartsWith("h.send h h.send h d.send d "));
  CHECK(Tokens(Notified(plan, e.segments, seconds)) ==
        "d.send -> h slots=3 turns=2\n"
        "h.send -> d slots=2 turns=0\n");
}

TEST_CASE("in an update the first receive after a large send is told of it") {
  Example e;
  e.Update("grad", 0, 1 << 20);  // actors 0 to 2
  e.Update("small", 0, 16);      // 3 to 5
  e.Update("back", 1, 1 << 20);  // 6 to 8
  e.Update("norm", 1, 16);       // 9 to 11
  const proto::Plan plan = e.b.Finish();
  CHECK(Tokens(Notified(plan, e.segments, {1, 2, 2, 1, 1, 1, 5, 2, 2, 20, 1, 1})) ==
        "grad.send -> back slots=1 turns=0\n");
}

TEST_CASE("in a round of several steps a large send may be over only for a later step's receive") {
  Example e;
  e.Update("grad", 0, 1 << 20, 2);  // actors 0 to 2
  e.Update("back", 1, 1 << 20, 2);  // 3 to 5
  const proto::Plan plan = e.b.Finish();
  // "back" comes before "grad" goes: that no receive waits, it must be told of the step before.
  CHECK(Tokens(Notified(plan, e.segments, {5, 0.5, 0.5, 4, 0.5, 0.5})) ==
        "back.send -> grad slots=1 turns=0\n"
        "grad.send -> back slots=2 turns=1\n");
}

}  // namespace oneflow
