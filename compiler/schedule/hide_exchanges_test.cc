#include "compiler/schedule/hide_exchanges.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/net/plan_for_test.h"

namespace oneflow {
namespace {

constexpr Task kBackward{Part::kBackward}, kUpdate{Part::kUpdate};

// A program of backwards, an actor a line, each with the seconds that it takes.
struct Example {
  PlanBuilder b{{{"pipe", 2}, {"data", 2}}};
  std::vector<SegmentInfo> segments;
  std::vector<double> seconds;  // by actor

  // Of an actor the register that it writes.
  int Kernel(const std::string& name, double takes, const std::vector<int>& reads, int stage = 0) {
    std::vector<PlanBuilder::In> inputs;
    for (const int reg : reads) inputs.push_back({reg});
    const int out = b.Register(name, stage);
    b.Actor(name, stage, inputs, {out});
    seconds.push_back(takes);
    return out;
  }
  int Exchange(const std::string& name, double takes, int reads, int stage = 0) {
    const int out = b.Register(name, stage);
    b.AllReduce(name, stage, {1}, {reads}, out);
    seconds.push_back(takes);
    return out;
  }
  // Something else than the update reads it.
  void Await(int reg, int stage = 0) {
    const std::string name = "reader." + std::to_string(reg);
    Kernel(name, 1, {reg}, stage);
    Segment({name}, {Lane::kCompute, {Part::kForward}}, stage);
  }
  int Find(const std::string& name) {
    for (const proto::Actor& actor : b.program().actor()) {
      if (actor.name() == name) return actor.id();
    }
    FAIL(name);
    return -1;
  }
  int Segment(const std::vector<std::string>& actors, SegmentInfo info, int stage = 0) {
    std::vector<int> ids;
    for (const std::string& actor : actors) ids.push_back(Find(actor));
    segments.push_back(info);
    return b.Segment("", stage, ids);
  }
  Lowered Hidden() {
    Lowered lowered{b.program(), segments};
    HideExchanges(seconds, &lowered);
    return lowered;
  }
  std::string Order(int segment) {
    const Lowered lowered = Hidden();
    std::string text;
    for (const int actor : lowered.program.segment(segment).actor()) {
      text += (text.empty() ? "" : " ") + lowered.program.actor(actor).name();
    }
    return text;
  }
};

// The backward of the header: two exchanges, two gradients of weights, which the update reads.
struct Header : Example {
  int dw1, dw2, exchanges, compute;
  explicit Header(double exchange = 1, double takes1 = 1, double takes2 = 1, Task task = kBackward,
                  int stage = 0, const std::string& prefix = "") {
    compute = Add(exchange, takes1, takes2, task, stage, prefix);
  }
  int Add(double exchange, double takes1, double takes2, Task task, int stage,
          const std::string& p) {
    const int dx1 = Kernel(p + "dx1", 1, {}, stage);
    dw1 = Kernel(p + "dw1", takes1, {}, stage);
    const int dx2 = Kernel(p + "dx2", 1, {dx1}, stage);
    const int x2 = Exchange(p + "x2", exchange, dx2, stage);
    dw2 = Kernel(p + "dw2", takes2, {dx1}, stage);
    const int x3 = Exchange(p + "x3", exchange, Kernel(p + "norm", 1, {x2}, stage), stage);
    Await(Kernel(p + "dx3", 1, {x3}, stage), stage);
    Kernel(p + "adamw", 1, {dw1, dw2}, stage);
    Segment({p + "adamw"}, {Lane::kCompute, kUpdate}, stage);
    exchanges = Segment({p + "x2", p + "x3"}, {Lane::kCollective, task}, stage);
    return Segment({p + "dx1", p + "dw1", p + "dx2", p + "dw2", p + "norm", p + "dx3"},
                   {Lane::kCompute, task}, stage);
  }
};

constexpr const char* kAsLowered = "dx1 dw1 dx2 dw2 norm dx3";

}  // namespace

TEST_CASE("gradients of weights stand where compute would wait for an exchange") {
  Header e;
  CHECK(e.Order(e.compute) == "dx1 dx2 dw2 norm dw1 dx3");
}

TEST_CASE("nothing but the order of kernels in the backward changes") {
  Header e;
  Lowered lowered = e.Hidden();
  const std::string before = e.b.program().SerializeAsString();
  const bool changed = lowered.program.SerializeAsString() != before;
  CHECK(changed);
  *lowered.program.mutable_segment(e.compute) = e.b.program().segment(e.compute);
  const bool all = lowered.program.SerializeAsString() == before;
  CHECK(all);
}

TEST_CASE("kernels that others wait for are not moved") {
  SECTION("a send to another stage") {
    Header e;
    const int there = e.b.Register("there", 1);
    e.b.SendReceive("send", {e.dw1}, there);
    e.seconds.insert(e.seconds.end(), 2, 0.5);
    e.segments.push_back({Lane::kSendBackward, kBackward, 1, 1});
    e.b.Segment("", 0, {e.b.program().actor_size() - 2});
    CHECK(e.Order(e.compute) == kAsLowered);
  }
  SECTION("an exchange of the stage, of another micro-batch's even") {
    Header e;
    e.Exchange("other", 1, e.dw1);
    e.Segment({"other"}, {Lane::kCollective, {Part::kForward}});
    CHECK(e.Order(e.compute) == kAsLowered);
  }
  SECTION("another kernel of the backward") {
    Header e;
    e.Kernel("reader", 1, {e.dw1});
    e.b.program().mutable_segment(e.compute)->add_actor(e.Find("reader"));
    CHECK(e.Order(e.compute) == std::string(kAsLowered) + " reader");
  }
}

TEST_CASE("nothing moves where nothing is hidden") {
  SECTION("exchanges that take no time") {
    Header e(0);
    CHECK(e.Order(e.compute) == kAsLowered);
  }
  SECTION("results that are read late enough") {
    Example e;
    const int x = e.Exchange("x", 1, e.Kernel("a", 1, {}));
    e.Kernel("dw", 1, {});
    e.Kernel("b", 2, {});
    e.Await(e.Kernel("c", 1, {x}));
    e.Segment({"x"}, {Lane::kCollective, kBackward});
    const int compute = e.Segment({"dw", "a", "b", "c"}, {Lane::kCompute, kBackward});
    CHECK(e.Order(compute) == "dw a b c");
  }
  SECTION("a stage whose compute waits for no exchange") {
    Header e;
    e.segments[e.exchanges].task = {Part::kForward};
    CHECK(e.Order(e.compute) == kAsLowered);
  }
}

TEST_CASE("kernels that hide little stay, and those that an exchange does not hide half of") {
  Header small(1, 0.24);
  CHECK(small.Order(small.compute) == "dx1 dw1 dx2 dw2 norm dx3");
  Header enough(1, 0.26, 0.26);
  CHECK(enough.Order(enough.compute) == "dx1 dx2 dw2 dw1 norm dx3");
  Header half(1, 2, 1.9);
  CHECK(half.Order(half.compute) == "dx1 dx2 dw1 norm dw2 dx3");
  Header large(1, 2.1, 2.1);
  CHECK(large.Order(large.compute) == kAsLowered);
}

TEST_CASE("of several the longest that fits hides an exchange, if it is not put off for long") {
  const auto order = [](int longest) {
    Example e;
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) {
      names.push_back("w" + std::to_string(i));
      e.Kernel(names.back(), i == longest ? 1.5 : 1, {});
    }
    const int x = e.Exchange("x", 1, e.Kernel("a", 1, {}));
    e.Await(e.Kernel("c", 1, {x}));
    e.Segment({"x"}, {Lane::kCollective, kBackward});
    names.insert(names.end(), {"a", "c"});
    return e.Order(e.Segment(names, {Lane::kCompute, kBackward}));
  };
  CHECK(order(4) == "w0 w1 w2 w3 w5 a w4 c");
  CHECK(order(2) == "w0 w1 w3 w4 w5 a w2 c");
  CHECK(order(1) == "w0 w1 w2 w3 w4 a w5 c");
}

TEST_CASE("backwards of several chunks and stages are ordered each by itself") {
  Header e(1, 1, 1, {Part::kBackward, 0}, 0, "a.");
  const int b = e.Add(1, 1, 1, {Part::kBackward, 1}, 0, "b.");
  const int c = e.Add(0, 1, 1, {Part::kBackward, 0}, 1, "c.");
  const int d = e.Add(1, 1, 1, {Part::kBackward, 1}, 1, "d.");
  CHECK(e.Order(e.compute) == "a.dx1 a.dx2 a.dw2 a.norm a.dw1 a.dx3");
  CHECK(e.Order(b) == "b.dx1 b.dx2 b.dw2 b.norm b.dw1 b.dx3");
  CHECK(e.Order(c) == "c.dx1 c.dw1 c.dx2 c.dw2 c.norm c.dx3");
  CHECK(e.Order(d) == "d.dx1 d.dx2 d.dw2 d.norm d.dw1 d.dx3");
}

namespace {

// A backward, drawn: a chain of kernels, some of which pass their result through an exchange, and
// gradients of weights that read of it.
struct Draw : Example {
  int compute;
  explicit Draw(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    std::vector<std::string> kernels, exchanges;
    std::vector<int> chain = {b.Register("dy")};
    for (int i = 0; i < 20; ++i) {
      const std::string name = "k" + std::to_string(i);
      const int from = chain[std::max<int>(0, static_cast<int>(chain.size()) - 1 - below(3))];
      const int made = Kernel(name, 0.25 * (1 + below(8)), {from});
      kernels.push_back(name);
      if (below(2) == 0) continue;  // only the update reads it
      chain.push_back(made);
      if (below(2) == 0) continue;
      exchanges.push_back("x" + std::to_string(i));
      chain.back() = Exchange(exchanges.back(), 0.25 * (1 + below(8)), made);
    }
    Segment(exchanges, {Lane::kCollective, kBackward});
    compute = Segment(kernels, {Lane::kCompute, kBackward});
  }
  // Seconds that the backward takes; -1 if a kernel reads what no one has written before it.
  double Seconds(const proto::Segment& kernels, const proto::Segment& exchanges) {
    std::map<int, double> written = {{0, 0}};
    double now = 0, link = 0;
    int next = 0;
    const auto ready = [&](int actor) {
      const auto found = written.find(b.program().actor(actor).input(0).register_());
      return found == written.end() ? -1 : found->second;
    };
    const auto run = [&](int actor, double* clock) {
      *clock = std::max(*clock, ready(actor)) + seconds[actor];
      written[b.program().actor(actor).output(0)] = *clock;
    };
    for (const int actor : kernels.actor()) {
      if (ready(actor) < 0) return -1;
      run(actor, &now);
      for (; next < exchanges.actor_size() && ready(exchanges.actor(next)) >= 0; ++next) {
        run(exchanges.actor(next), &link);
      }
    }
    return now;
  }
};

}  // namespace

TEST_CASE("whatever the backward, all kernels stay, none reads too early, and time is saved") {
  double before = 0, after = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Lowered hidden = draw.Hidden();
    const proto::Segment &was = draw.b.program().segment(draw.compute),
                         &is = hidden.program.segment(draw.compute);
    INFO("seed " << seed << ": " << draw.Order(draw.compute));
    CHECK(std::is_permutation(was.actor().begin(), was.actor().end(), is.actor().begin(),
                              is.actor().end()));
    const double a = draw.Seconds(was, draw.b.program().segment(0)),
                 b = draw.Seconds(is, draw.b.program().segment(0));
    REQUIRE(a > 0);
    CHECK(b > 0);
    CHECK(b <= a * 1.1);
    before += a;
    after += b;
  }
  CHECK(after < 0.97 * before);
}

}  // namespace oneflow
