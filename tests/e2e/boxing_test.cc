// Boxing on real data: for every pair of nd-SBPs of a mesh, what the runtime makes of one is what
// gathering the full tensor and scattering it to the other layout would give; on one stage, and
// from one stage to the next, which are other ranks. Prime sizes, so parts are ragged. With
// ONEFLOW_TEST_FULL more shapes, meshes of three axes and nodes with slow links between them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "oneflow_core/verify/verify_plan.h"
#include "tests/e2e/boxing_case.h"

namespace oneflow {
namespace {

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

TEST_CASE("every pair of nd-SBPs, sums and maxima included, gives gather-then-scatter") {
  std::vector<Dims> shapes = {{5, 7}};
  if (Full()) shapes = {{5, 7}, {13, 11}, {2, 3, 5}, {7, 1, 3}, {1, 1}};
  for (const std::string text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3"}) {
    const Mesh mesh = *ParseMesh(text);
    for (const Dims& dims : shapes) {
      const std::vector<NdSbp> all = AllSbps(mesh, static_cast<int>(dims.size()));
      for (size_t i = 0; i < all.size(); ++i) {
        CheckBoxing({mesh, dims, all[i], all, {}}, i);
        if (Full()) CheckBoxing({mesh, dims, all[i], all, NodesOfTwo()}, i);
      }
    }
  }
}

TEST_CASE("every pair from one stage to the next, over fast and over slow links") {
  std::vector<std::string> meshes = {"pipe=2,a=2", "pipe=2,a=3"};
  if (Full()) meshes.insert(meshes.end(), {"pipe=2,a=4", "pipe=2,a=2,b=2", "a=2,pipe=2,b=3"});
  for (const std::string& text : meshes) {
    const Mesh mesh = *ParseMesh(text);
    const std::vector<NdSbp> all = AllSbps(mesh, 2);
    for (size_t i = 0; i < all.size(); ++i) {
      for (const proto::Cluster& cluster : {proto::Cluster(), NodesOfTwo()}) {
        CheckBoxing({mesh, {6, 7}, all[i], all, cluster}, i);
      }
    }
  }
}

TEST_CASE("a plan whose filling was edited is refused") {
  const BoxingCase c{*ParseMesh("a=2"), {5, 7}, {S(0)}, {{P()}}};
  const auto refusal = [&](const std::function<void(proto::Actor*)>& edit) {
    proto::Plan plan = MakeBoxingPlan(c);
    for (proto::Actor& actor : *plan.mutable_program(0)->mutable_actor()) {
      if (actor.has_boxing()) edit(&actor);
    }
    return VerifyPlan(plan).ToString();
  };
  const auto says = [](const std::string& text) { return Catch::Contains(text); };
  CHECK(refusal([](proto::Actor*) {}) == "OK");
  CHECK_THAT(refusal([](proto::Actor* a) { a->mutable_boxing()->clear_fill(); }),
             says("its sources hold 21 of 35 elements"));
  CHECK_THAT(refusal([](proto::Actor* a) { a->set_kernel("slice"); }),
             says("fills, but is no zero_fill"));
  CHECK_THAT(refusal([](proto::Actor* a) {
               a->mutable_boxing()->set_fill(static_cast<proto::Boxing::Fill>(7));
             }),
             says("fills with 7"));
  CHECK_THAT(refusal([](proto::Actor* a) { a->mutable_boxing()->add_reduce_axis(0); }),
             says("reduces along axis 0, which is not its group's"));
}

TEST_CASE("pairs on three axes: a fixed sample") {
  const Mesh mesh = *ParseMesh("a=2,b=2,c=3");
  const Dims dims = {13, 7, 2};
  const std::vector<NdSbp> all = AllSbps(mesh, 3);
  std::mt19937 random(3);
  for (int i = 0; i < (Full() ? 60 : 6); ++i) {
    BoxingCase c{
        mesh, dims, all[random() % all.size()], {}, i % 2 == 0 ? proto::Cluster() : NodesOfTwo()};
    for (int k = 0; k < 12; ++k) c.to.push_back(all[random() % all.size()]);
    CheckBoxing(c, i);
  }
}

}  // namespace
}  // namespace oneflow
