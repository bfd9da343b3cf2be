#include "compiler/schedule/prefetch.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/net/plan_for_test.h"

namespace oneflow {
namespace {

// A forward of kernels k0, k1, ..., and gathers g0, g1, ..., each a use of its own.
struct Example {
  PlanBuilder b{{{"data", 2}}};
  std::vector<int> gathers, gathered, kernels;
  std::vector<std::vector<int>> uses;  // of actors; empty: each gather is one

  int Gather(const std::vector<PlanBuilder::In>& after = {}) {
    const std::string name = absl::StrCat("g", gathers.size());
    const int part = b.Register(name + ".part"), full = b.Register(name + ".full");
    gathers.push_back(b.AllReduce(name, 0, {0}, {part}, full));
    for (const PlanBuilder::In& in : after) b.AddInput(gathers.back(), in);
    gathered.push_back(full);
    return full;
  }
  void Kernel(const std::vector<int>& reads) {
    std::vector<PlanBuilder::In> in;
    for (const int reg : reads) in.push_back({reg});
    const std::string name = absl::StrCat("k", kernels.size());
    kernels.push_back(b.Actor(name, 0, in, {b.Register(name)}));
  }

  // "g2<-k0 g0<-k2-1": who waits for whom, and the micro-batches between them. `order`: of the
  // gathers behind AddPrefetch.
  std::string Credits(int ahead, std::string* order = nullptr, int chunk = 0) {
    b.Segment("F", 0, kernels);
    b.Segment("F", 0, gathers);
    Lowered lowered{
        b.program(),
        {{Lane::kCompute, {Part::kForward, chunk}}, {Lane::kGather, {Part::kForward, chunk}}}};
    lowered.gather_uses = uses;
    if (uses.empty()) {
      for (const int gather : gathers) lowered.gather_uses.push_back({gather});
    }
    AddPrefetch(ahead, &lowered);
    const proto::Program& program = lowered.program;
    if (order != nullptr) {
      for (const int actor : program.segment(1).actor()) *order += program.actor(actor).name();
    }
    std::string text;
    for (const int gather : program.segment(1).actor()) {
      const proto::Actor& actor = program.actor(gather);
      for (const proto::Input& input : actor.input()) {
        const proto::Register& r = program.register_(input.register_() - program.register_(0).id());
        if (!r.name().ends_with(".credit")) continue;
        CHECK(r.slot_bytes() == 0);
        CHECK(r.slots() == input.initial_fills() + 1);
        for (const proto::Actor& writer : program.actor()) {
          for (const int output : writer.output()) {
            if (output != r.id()) continue;
            absl::StrAppend(&text, text.empty() ? "" : " ", actor.name(), "<-", writer.name());
          }
        }
        if (input.initial_fills() > 0) absl::StrAppend(&text, "-", input.initial_fills());
      }
    }
    return text;
  }
};

}  // namespace

TEST_CASE("a gather waits for the use d + 1 before it, the first ones for the micro-batch before") {
  const auto credits = [](int uses, int ahead) {
    Example e;
    for (int i = 0; i < uses; ++i) e.Kernel({e.Gather()});
    return e.Credits(ahead);
  };
  CHECK(credits(4, 1) == "g0<-k2-1 g1<-k3-1 g2<-k0 g3<-k1");
  CHECK(credits(4, 2) == "g0<-k1-1 g1<-k2-1 g2<-k3-1 g3<-k0");
  // Each has a place of its own.
  CHECK(credits(4, 3) == "");
  CHECK(credits(1, 1) == "");
}

TEST_CASE("the last reader gives the credit, and gathers stand in the order of first readers") {
  Example e;
  const int a = e.Gather(), b = e.Gather(), c = e.Gather();
  e.Kernel({b});
  e.Kernel({b});
  e.Kernel({c});
  e.Kernel({a});
  std::string order;
  CHECK(e.Credits(1, &order) == "g1<-k2-1 g2<-k3-1 g0<-k1");
  CHECK(order == "g1g2g0");
}

TEST_CASE("what is read until behind the use that would wait for it has no place in the ring") {
  Example e;
  const int tied = e.Gather();
  e.Kernel({tied});
  for (int i = 0; i < 3; ++i) e.Kernel({e.Gather()});
  e.Kernel({tied});
  CHECK(e.Credits(1) == "g1<-k2-1 g2<-k3-1 g3<-k1");
}

// Compute may be in another order than when the cast was given to a use.
TEST_CASE("a use whose cast another one reads stays before that one") {
  Example e;
  const int narrow = e.b.Register("narrow");
  const int cast = e.b.Actor("cast", 0, {}, {narrow});
  const int with_cast = e.Gather({{narrow}}), other = e.Gather({{narrow}});
  e.Kernel({e.Gather()});
  e.Kernel({other});
  e.Kernel({with_cast});
  e.uses = {{cast, e.gathers[0]}, {e.gathers[1]}, {e.gathers[2]}};
  e.gathers.insert(e.gathers.begin(), cast);
  std::string order;
  e.Credits(1, &order);
  CHECK(order == "g2castg0g1");
}

TEST_CASE("a chunk has fewer places than uses, so that its gathers do not end before it begins") {
  const auto credits = [](int uses, int ahead) {
    Example e;
    for (int i = 0; i < uses; ++i) e.Kernel({e.Gather()});
    return e.Credits(ahead, nullptr, /*chunk=*/1);
  };
  CHECK(credits(4, 3) == "g0<-k1-1 g1<-k2-1 g2<-k3-1 g3<-k0");
  CHECK(credits(3, 2) == "g0<-k1-1 g1<-k2-1 g2<-k0");
  CHECK(credits(2, 2) == "");
}

TEST_CASE("what another segment reads has none, either") {
  Example e;
  const int shared = e.Gather();
  e.Kernel({shared});
  for (int i = 0; i < 3; ++i) e.Kernel({e.Gather()});
  e.b.Actor("elsewhere", 0, {{shared}}, {});
  CHECK(e.Credits(1) == "g1<-k2-1 g2<-k3-1 g3<-k1");
}

}  // namespace oneflow
