// The proof of exchanges, on plans small enough to be judged by eye: who waits for whom where
// devices meet, what of their bytes is over when, and what does not fit together.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/verify/edited_plans.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

using Plan = proto::Plan;

const std::string kStops = "program train can stop for ever: ";

// An actor in a segment and on a stream of its own, `times` a step.
void Alone(PlanBuilder& b, const std::string& stream, int actor, int times = 1) {
  const proto::Actor& a = b.program().actor(actor);
  b.Stream(stream, a.stage(), {{{b.Segment(a.name(), a.stage(), {actor})}, times}});
}

// A send and its receive on streams of their own.
PlanBuilder::Pair Sent(PlanBuilder& b, const std::string& name, int from, int to, int times = 1) {
  const PlanBuilder::Pair pair = b.SendReceive(name, {from}, to);
  Alone(b, "send", pair.send, times);
  Alone(b, "receive", pair.receive, times);
  return pair;
}

}  // namespace

TEST_CASE("a cycle through two stages is reported as a story") {
  // 0 sends h, 1 sends back d, for which 0 waits before it makes h, or after it.
  const auto plan = [](bool early) {
    PlanBuilder b({{"pipe", 2}});
    const int h = b.Register("h", 0), h1 = b.Register("h1", 1), d = b.Register("d", 1),
              d0 = b.Register("d0", 0);
    const int f0 = b.Segment("F", 0, {b.Actor("f0", 0, {}, {h})});
    const int b0 = b.Segment("B", 0, {b.Actor("b0", 0, {{d0}}, {})});
    b.Stream("compute", 0, {{early ? std::vector<int>{b0, f0} : std::vector<int>{f0, b0}, 1}});
    b.Stream("compute", 1, {{{b.Segment("F", 1, {b.Actor("f1", 1, {{h1}}, {d})})}, 1}});
    const auto there = Sent(b, "h", h, h1), back = Sent(b, "d", d, d0);
    b.Issue(0, {{{there.send, back.receive}, 1}});
    return b.Finish();
  };
  CHECK(Verdict(plan(false)) == "good");
  CHECK(Verdict(plan(true)) ==
        kStops +
            "B of stage 0 in micro-batch 0 waits for a fill of d0, written by d of stage 0, which"
            " waits for its turn to be issued, after h.send of stage 0, which waits for a fill of"
            " h, written by F of stage 0, which comes after B of stage 0");
}

namespace {

// 0 sends x and y, on streams of their own.
Plan TwoSends(const PlanBuilder::Order& issue0, const PlanBuilder::Order& issue1) {
  PlanBuilder b({{"pipe", 2}});
  const int x = b.Register("x", 0), y = b.Register("y", 0), x1 = b.Register("x1", 1),
            y1 = b.Register("y1", 1);
  Alone(b, "compute", b.Actor("f", 0, {}, {x, y}), 2);  // 0
  Alone(b, "compute", b.Actor("g", 1, {{x1}, {y1}}, {}), 2);
  Sent(b, "x", x, x1, 2);  // 2 and 3
  Sent(b, "y", y, y1, 2);  // 4 and 5
  b.Issue(0, issue0);
  b.Issue(1, issue1);
  return b.Finish();
}

}  // namespace

TEST_CASE("stages that issue the same exchanges in other orders wait for each other") {
  CHECK(Verdict(TwoSends({{{2, 4}, 2}}, {{{3, 5}, 2}})) == "good");
  CHECK(Verdict(TwoSends({{{4, 2}, 2}}, {{{5, 3}, 2}})) == "good");
  CHECK(Verdict(TwoSends({{{2, 4, 4, 2}, 1}}, {{{3, 5}, 1}, {{5, 3}, 1}})) == "good");
  CHECK(Verdict(TwoSends({{{2, 4}, 2}}, {{{5, 3}, 2}})) ==
        kStops +
            "x.send of stage 0 in micro-batch 0 waits for its partner x of stage 1, which waits "
            "for its turn to be issued, after y of stage 1, which waits for its partner y.send of"
            " stage 0, which waits for its turn to be issued, after x.send of stage 0");
  // In the second micro-batch only.
  CHECK(Verdict(TwoSends({{{2, 4}, 2}}, {{{3, 5, 5, 3}, 1}})) ==
        kStops +
            "y of stage 1 in micro-batch 1 waits for its partner y.send of stage 0, which waits "
            "for its turn to be issued, after x.send of stage 0, which waits for its partner x of"
            " stage 1, which waits for its turn to be issued, after y of stage 1");
}

TEST_CASE("a receive that is issued before its turn waits for ever") {
  const auto plan = [](bool early) {
    PlanBuilder b({{"pipe", 2}});
    const int h = b.Register("h", 0), h1 = b.Register("h1", 1), d = b.Register("d", 1),
              d0 = b.Register("d0", 0);
    Alone(b, "compute", b.Actor("f0", 0, {}, {h}));
    Alone(b, "compute", b.Actor("f1", 1, {{h1}}, {d}));
    Alone(b, "host.out", b.Actor("b0", 0, {{d0}}, {}));
    const auto there = Sent(b, "h", h, h1), back = Sent(b, "d", d, d0);
    b.Issue(0, {{early ? std::vector<int>{back.receive, there.send}
                       : std::vector<int>{there.send, back.receive},
                 1}});
    return b.Finish();
  };
  CHECK(Verdict(plan(false)) == "good");
  CHECK(Verdict(plan(true)) ==
        kStops +
            "f1 of stage 1 in micro-batch 0 waits for a fill of h1, written by h of stage 1, "
            "which waits for its partner h.send of stage 0, which waits for its turn to be "
            "issued, after d of stage 0, which waits for its partner d.send of stage 1, which "
            "waits for a fill of d, written by f1 of stage 1");
}

TEST_CASE("orders of issue that agree between any two stages may stand still in a ring") {
  // Stage i sends to the next, and has received before, or receives after: each two stages share
  // one exchange only.
  const auto plan = [](int first_to_send) {
    PlanBuilder b({{"pipe", 3}});
    PlanBuilder::Pair sent[3];
    for (int i = 0; i < 3; ++i) {
      const std::string of = std::to_string(i), next = std::to_string((i + 1) % 3);
      const int x = b.Register("x" + of, i), to = b.Register("x" + of + "." + next, (i + 1) % 3);
      Alone(b, "compute", b.Actor("f" + of, i, {}, {x}));
      Alone(b, "host.out", b.Actor("g" + next, (i + 1) % 3, {{to}}, {}));
      sent[i] = Sent(b, "x" + of, x, to);
    }
    for (int i = 0; i < 3; ++i) {
      const int receive = sent[(i + 2) % 3].receive;
      b.Issue(i, {{i == first_to_send ? std::vector<int>{sent[i].send, receive}
                                      : std::vector<int>{receive, sent[i].send},
                   1}});
    }
    return b.Finish();
  };
  for (const int first : {0, 1, 2}) CHECK(Verdict(plan(first)) == "good");
  CHECK(Verdict(plan(-1)) ==
        kStops +
            "x0 of stage 1 in micro-batch 0 waits for its partner x0.send of stage 0, which waits"
            " for its turn to be issued, after x2 of stage 0, which waits for its partner x2.send"
            " of stage 2, which waits for its turn to be issued, after x1 of stage 2, which waits"
            " for its partner x1.send of stage 1, which waits for its turn to be issued, after x0"
            " of stage 1");
}

TEST_CASE("partners that stand on streams in other orders wait for each other") {
  const auto plan = [](bool swapped) {
    PlanBuilder b({{"pipe", 2}});
    const int x = b.Register("x", 0), y = b.Register("y", 0), x1 = b.Register("x1", 1),
              y1 = b.Register("y1", 1);
    Alone(b, "compute", b.Actor("f", 0, {}, {x, y}));
    Alone(b, "compute", b.Actor("g", 1, {{x1}, {y1}}, {}));
    const auto of_x = b.SendReceive("x", {x}, x1), of_y = b.SendReceive("y", {y}, y1);
    b.Stream("send", 0, {{{b.Segment("S", 0, {of_x.send, of_y.send})}, 1}});
    b.Stream("receive", 1,
             {{{b.Segment("R", 1,
                          swapped ? std::vector<int>{of_y.receive, of_x.receive}
                                  : std::vector<int>{of_x.receive, of_y.receive})},
               1}});
    return b.Finish();
  };
  CHECK(Verdict(plan(false)) == "good");
  CHECK(Verdict(plan(true)) ==
        kStops +
            "R of stage 1 (y) in micro-batch 0 waits for its partner, which comes after S of "
            "stage 0 (x.send), which waits for its partner, which comes after R of stage 1 (y)");
}

TEST_CASE("a receive waits for a slot of what it has received before") {
  // g needs y before it takes x, of which there is one slot on each stage.
  const auto plan = [](int slots) {
    PlanBuilder b({{"pipe", 2}});
    const int x = b.Register("x", 0), y = b.Register("y", 0), x1 = b.Register("x1", 1, slots),
              y1 = b.Register("y1", 1);
    const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {x})});
    const int last = b.Segment("P", 0, {b.Actor("p", 0, {}, {y})});
    b.Stream("compute", 0, {{{f}, 3}, {{last}, 1}});
    const int k = b.Segment("K", 1, {b.Actor("k", 1, {{y1}}, {})});
    const int g = b.Segment("G", 1, {b.Actor("g", 1, {{x1}}, {})});
    b.Stream("compute", 1, {{{k}, 1}, {{g}, 3}});
    Sent(b, "x", x, x1, 3);
    Sent(b, "y", y, y1);
    return b.Finish();
  };
  CHECK(Verdict(plan(2)) == "good");
  CHECK(Verdict(plan(1)) ==
        kStops +
            "K of stage 1 in micro-batch 0 waits for a fill of y1, written by y of stage 1, which"
            " waits for its turn to be issued, after x of stage 1, which waits for a free slot of"
            " x1, held by G of stage 1, which comes after K of stage 1");
}

TEST_CASE("collectives of one device wait for their turn, too") {
  // The sum of y needs that of x.
  const auto plan = [](bool swapped) {
    PlanBuilder b({{"data", 2}});
    const int x = b.Register("x"), sum_x = b.Register("sum_x"), y = b.Register("y"),
              sum_y = b.Register("sum_y");
    Alone(b, "compute", b.Actor("f", 0, {}, {x}));
    const int first = b.AllReduce("x.sum", 0, {0}, {x}, sum_x);
    const int second = b.AllReduce("y.sum", 0, {0}, {y}, sum_y);
    Alone(b, "copy", first);
    Alone(b, "copy", second);
    Alone(b, "compute", b.Actor("g", 0, {{sum_x}}, {y}));
    if (swapped) b.Issue(0, {{{second, first}, 1}});
    return b.Finish();
  };
  CHECK(Verdict(plan(false)) == "good");
  CHECK(Verdict(plan(true)) ==
        kStops +
            "x.sum of stage 0 in micro-batch 0 waits for its turn to be issued, after y.sum of "
            "stage 0, which waits for a fill of y, written by g of stage 0, which waits for a "
            "fill of sum_x, written by x.sum of stage 0");
}

TEST_CASE("what an exchange reads may be overwritten when it has completed here") {
  // x is summed over the devices into y, and z takes the bytes of x: no device waits for others. On
  // another stream the sum has to be heard of, through y.
  const auto plan = [](bool apart, bool hear) {
    PlanBuilder b({{"tensor", 2}});
    const int x = b.Register("x"), y = b.Register("y"), z = b.Register("z");
    b.At(x).set_offset(0), b.At(y).set_offset(64), b.At(z).set_offset(0);
    const int a = b.Actor("a", 0, {}, {x}), sum = b.AllReduce("sum", 0, {0}, {x}, y);
    const int last = b.Actor("last", 0, {}, {z});
    if (hear) b.AddInput(last, {y});
    if (apart) {
      b.Stream("compute", 0, {{{b.Segment("F", 0, {a, last})}, 2}});
      b.Stream("copy", 0, {{{b.Segment("S", 0, {sum})}, 2}});
    } else {
      b.Stream("compute", 0, {{{b.Segment("F", 0, {a, sum, last})}, 2}});
    }
    return b.Finish();
  };
  CHECK(Verdict(plan(false, false)) == "good");
  CHECK(Verdict(plan(true, true)) == "good");
  CHECK_THAT(Verdict(plan(true, false)),
             Catch::Contains("S of stage 0 reads x after z has overwritten it"));
}

TEST_CASE("what a stage has sent is over for it when its send is, and no sooner") {
  // h is sent to the next stage, which sends back d. That d has come tells of the send of h only
  // where the receive waits for it: no message of that leaves the other device.
  const auto plan = [](bool hears) {
    PlanBuilder b({{"pipe", 2}});
    const int h = b.Register("h", 0), d0 = b.Register("d0", 0), h1 = b.Register("h1", 1),
              d = b.Register("d", 1), over = b.Register("over", 0);
    b.At(over).set_slot_bytes(0);
    b.At(h).set_offset(0), b.At(d0).set_offset(0);
    const auto there = b.SendReceive("h", {h}, h1), back = b.SendReceive("d", {d}, d0);
    if (hears) {
      b.program().mutable_actor(there.send)->add_output(over);
      b.AddInput(back.receive, {over});
    }
    b.Stream("compute", 0,
             {{{b.Segment("F", 0, {b.Actor("f0", 0, {}, {h})}),
                b.Segment("B", 0, {b.Actor("b0", 0, {{d0}}, {})})},
               2}});
    b.Stream("send", 0, {{{b.Segment("h.send", 0, {there.send})}, 2}});
    b.Stream("receive", 0, {{{b.Segment("d", 0, {back.receive})}, 2}});
    b.Stream("receive", 1, {{{b.Segment("h", 1, {there.receive})}, 2}});
    b.Stream("compute", 1, {{{b.Segment("F", 1, {b.Actor("f1", 1, {{h1}}, {d})})}, 2}});
    b.Stream("send", 1, {{{b.Segment("d.send", 1, {back.send})}, 2}});
    return b.Finish();
  };
  CHECK(Verdict(plan(true)) == "good");
  CHECK_THAT(Verdict(plan(false)), Catch::Contains("registers h and d0 of stage 0 share bytes"));
}

namespace {

proto::IssueOrder& Issue(Plan& p, int i) { return *Train(p).mutable_issue(i); }

// Actors f, x.sum, and g, of registers x and sum.
Plan Summed() {
  PlanBuilder b({{"pipe", 2}, {"data", 2}, {"tensor", 2}});
  const int x = b.Register("x"), sum = b.Register("sum");
  Alone(b, "compute", b.Actor("f", 0, {}, {x}), 2);
  Alone(b, "copy", b.AllReduce("x.sum", 0, {1, 2}, {x}, sum), 2);
  Alone(b, "compute", b.Actor("g", 0, {{sum}}, {}), 2);
  return b.Finish();
}

}  // namespace

TEST_CASE("groups are of the mesh") {
  const auto group = [](Plan& p) { return p.mutable_group(0); };
  CheckEach(Summed(),
            {{[&](Plan& p) { group(p)->clear_axis(); }, "group 0 (data,tensor): joins no devices"},
             {[&](Plan& p) { group(p)->set_axis(0, 0); }, "joins devices along axis 0"},
             {[&](Plan& p) { group(p)->set_axis(1, 1); }, "joins devices along axis 1"},
             {[&](Plan& p) { group(p)->set_axis(1, 3); }, "joins devices along axis 3"},
             {[&](Plan& p) { group(p)->set_axis(0, -1); }, "joins devices along axis -1"}});
  const auto stages = [&](int from, int to) {
    return [group, from, to](Plan& p) {
      group(p)->mutable_stages()->set_from(from);
      group(p)->mutable_stages()->set_to(to);
    };
  };
  const Plan sent = TwoSends({{{2, 4}, 2}}, {{{3, 5}, 2}});
  CheckEach(sent, {{stages(1, 1), "group 0 (stage 0 to 1): joins stage 1 and stage 1"},
                   {stages(0, 2), "joins stage 0 and stage 2"},
                   {stages(-1, 0), "joins stage -1 and stage 0"},
                   {[&](Plan& p) { group(p)->add_axis(1); }, "joins stage 0 and stage 1"}});
}

TEST_CASE("collectives") {
  const auto other_input = [](Plan& p) { *Act(p, 1).add_input() = p.program(0).actor(1).input(0); };
  CheckEach(
      Summed(),
      {{[](Plan& p) { Act(p, 1).mutable_exchange()->set_group(1); }, "x.sum names group 1"},
       {[](Plan& p) { Act(p, 1).mutable_exchange()->set_group(-1); }, "x.sum names group -1"},
       {[](Plan& p) {
          p.mutable_group(0)->clear_axis();
          p.mutable_group(0)->mutable_stages()->set_to(1);
        },
        "actor x.sum: its group is a pair of stages"},
       {[](Plan& p) { Act(p, 1).clear_boxing(); }, "says not how elements get to their layout"},
       {[](Plan& p) { Act(p, 1).clear_input(); }, "has 0 inputs with data and 1 outputs"},
       {other_input, "has 2 inputs with data and 1 outputs"},
       {[](Plan& p) { Act(p, 1).set_kernel("slice"); }, "kernel slice is no exchange"},
       {[](Plan& p) { Act(p, 1).set_kernel("send"); }, "kernel send has no partner"},
       {[](Plan& p) { Act(p, 1).mutable_exchange()->set_partner(0); },
        "actor x.sum has partner 0, which is not its own"},
       {[](Plan& p) { Act(p, 1).mutable_exchange()->set_partner(1); }, "has partner 1"},
       {[](Plan& p) { Act(p, 1).mutable_exchange()->set_partner(3); }, "has partner 3"},
       {[](Plan& p) { Act(p, 1).mutable_boxing()->clear_reduce_axis(); },
        "its sources hold 64 of 16 elements it needs on rank 0"},
       {[](Plan& p) { Act(p, 1).set_kernel("reduce_scatter"); },
        "does not go between its layouts as reduce_scatter does"},
       {[](Plan& p) { Act(p, 1).set_kernel("all_gather"); }, "as all_gather does"},
       {[](Plan& p) { Act(p, 1).set_kernel("all_to_all"); }, "64 of 256 elements"},
       {[](Plan& p) {
          proto::Register& token = *Train(p).add_register_();
          token = p.program(0).register_(0);
          token.set_id(Train(p).register__size() - 1), token.set_slot_bytes(0);
          token.set_fill_mode(proto::Register::ACCUMULATE);
          Act(p, 1).add_output(token.id());
        },
        "actor x.sum: adds to x, which has no bytes"}});
}

TEST_CASE("sends and receives") {
  // Actors f, g, send x, receive x, send y, receive y; registers x, y, x1, y1.
  const auto partner = [](Plan& p, int a, int b) {
    Act(p, a).mutable_exchange()->set_partner(b);
    Act(p, b).mutable_exchange()->set_partner(a);
  };
  const auto control = [](Plan& p, int64_t bytes) {
    *Train(p).add_register_() = p.program(0).register_(0);
    Reg(p, 4).set_id(4), Reg(p, 4).set_slot_bytes(bytes);
    Act(p, 2).add_output(4);
  };
  const Plan good = TwoSends({{{2, 4}, 2}}, {{{3, 5}, 2}});
  Plan reported = good;
  control(reported, 0);
  CHECK(Verdict(reported) == "good");
  CheckEach(
      good,
      {{[](Plan& p) { Act(p, 2).mutable_exchange()->clear_partner(); },
        "actor x has partner 2, which is not its own"},
       {[](Plan& p) { Act(p, 2).clear_exchange(); }, "actor x has partner 2"},
       {[](Plan& p) { Act(p, 2).set_kernel("all_gather"); }, "kernel all_gather has a partner"},
       {[](Plan& p) { Act(p, 3).set_kernel("send"); },
        "actor x.send: its partner x is no receive of its group"},
       {[](Plan& p) { Act(p, 2).set_kernel("receive"); }, "actor x.send: its partner is no send"},
       {[&](Plan& p) { partner(p, 2, 4), partner(p, 3, 5); }, "its partner y.send is no receive"},
       {[](Plan& p) {
          *p.add_group() = p.group(0);
          Act(p, 3).mutable_exchange()->set_group(1);
        },
        "its partner x is no receive of its group"},
       {[](Plan& p) {
          p.mutable_group(0)->mutable_stages()->set_from(1);
          p.mutable_group(0)->mutable_stages()->set_to(0);
        },
        "sends from stage 0 to stage 1, its group is stage 0 to 1"},
       {[](Plan& p) { Act(p, 2).clear_input(); }, "does not send one tensor"},
       {[](Plan& p) { *Act(p, 2).add_input() = p.program(0).actor(4).input(0); },
        "does not send one tensor"},
       {[](Plan& p) { Act(p, 3).clear_output(), Act(p, 1).mutable_input()->DeleteSubrange(0, 1); },
        "its partner does not receive one"},
       {[&](Plan& p) { control(p, 64); }, "actor x.send: writes data"},
       {[](Plan& p) { Str(p, 3).mutable_order(0)->set_repeat(1); },
        "fires 2 times a step, its partner 1 times"},
       {[](Plan& p) { Reg(p, 2).mutable_layout()->set_dim(0, 8); }, "reads [16], writes [8]"},
       {[](Plan& p) { Reg(p, 2).set_dtype(proto::I32); }, "changes the type of elements"},
       {[](Plan& p) {
          Act(p, 3).mutable_boxing()->set_reduce(proto::Boxing::SUM);
          Act(p, 3).mutable_boxing()->add_reduce_axis(0);
        },
        "reduces along axis 0, which is not its group's"}});
}

TEST_CASE("a kernel stands among exchanges if they alone read what it writes") {
  const auto plan = [](bool other_reads) {
    PlanBuilder b({{"data", 2}});
    const int x = b.Register("x"), sum = b.Register("sum");
    const int f = b.Actor("f", 0, {}, {x}), exchange = b.AllReduce("x.sum", 0, {0}, {x}, sum);
    b.Stream("copy", 0, {{{b.Segment("F", 0, {f, exchange})}, 1}});
    std::vector<PlanBuilder::In> reads = {{sum}};
    if (other_reads) reads.push_back({x});
    Alone(b, "compute", b.Actor("g", 0, reads, {}));
    Plan p = b.Finish();
    Str(p, 0).set_kind(proto::Stream::EXCHANGE);
    return p;
  };
  CHECK(Verdict(plan(false)) == "good");
  CHECK(Verdict(plan(true)).find("actor f is no exchange, but on a stream of them") !=
        std::string::npos);
}

TEST_CASE("streams of exchanges and orders of issue") {
  CheckEach(
      Summed(),
      {{[](Plan& p) { Str(p, 1).set_kind(proto::Stream::HOST); },
        "exchange x.sum stands on a stream of the host"},
       {[](Plan& p) { Str(p, 1).set_kind(proto::Stream::HOST_COMPUTE); },
        "exchange x.sum stands on a stream of the host"},
       {[](Plan& p) { Str(p, 0).set_kind(proto::Stream::EXCHANGE); },
        "actor f is no exchange, but on a stream of them, and not all that read what it writes"},
       {[](Plan& p) { Train(p).clear_issue(); },
        "exchange x.sum fires 2 times a step, its stage issues it 0 times"},
       {[](Plan& p) { Issue(p, 0).mutable_run(0)->set_repeat(3); }, "its stage issues it 3 times"},
       {[](Plan& p) { Issue(p, 0).mutable_run(0)->set_repeat(-1); }, "or repeats -1 times"},
       {[](Plan& p) { Issue(p, 0).mutable_run(0)->add_actor(3); },
        "the order of issue of stage 0 holds actor 3, which does not exist"},
       {[](Plan& p) { Issue(p, 0).mutable_run(0)->add_actor(0); },
        "holds actor 0, which is no exchange of it"},
       {[](Plan& p) { Issue(p, 0).set_stage(1); }, "holds actor 1, which is no exchange of it"},
       {[](Plan& p) { *Train(p).add_issue() = p.program(0).issue(0); },
        "holds actor 1, which is in another, too"},
       {[](Plan& p) { Train(p).add_issue(); }, "not of stages in ascending order: stage 0"},
       {[](Plan& p) { Train(p).add_issue()->set_stage(2); }, "ascending order: stage 2"}});
}

}  // namespace oneflow
