// Boxing between sub-meshes on real data: the same devices in another shape, devices in common, and
// none; every nd-SBP to every other gives what gather-then-scatter would. Prime sizes, so parts are
// ragged, and cut otherwise by 2 x 3 than by 3 x 2 or 6.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/plan/verify_plan.h"
#include "tests/e2e/boxing_case.h"

namespace oneflow {
namespace {

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

using On = std::optional<SubMesh>;

// "x=2,y=3" from device `first` on; nothing: the whole mesh.
On At(const std::string& axes, int first = 0) { return DenseSubMesh(*ParseMesh(axes), first); }

On Strided(const std::string& axes, int stride, int first) {
  SubMesh sub = DenseSubMesh(*ParseMesh(axes), first);
  for (int& s : sub.strides) s *= stride;
  return sub;
}

void CheckAllPairs(const Mesh& mesh, const On& from, const On& to, const Dims& dims,
                   const proto::Cluster& cluster) {
  const int rank = static_cast<int>(dims.size());
  const std::vector<MeshSbp> all = AllOn(mesh, to, rank);
  uint64_t seed = 0;
  for (const MeshSbp& lies : AllOn(mesh, from, rank)) {
    CheckBoxing({mesh, dims, lies, all, cluster}, ++seed);
  }
}

// Every pair of meshes, both ways, and both over links that are alike and over nodes of two.
void CheckMeshes(const std::string& text, const std::vector<On>& meshes, const Dims& dims) {
  const Mesh mesh = *ParseMesh(text);
  for (const On& from : meshes) {
    for (const On& to : meshes) {
      if (from == to && !from) continue;  // the whole mesh alone: boxing_test.cc
      CheckAllPairs(mesh, from, to, dims, {});
      if (Full()) CheckAllPairs(mesh, from, to, dims, NodesOfTwo());
    }
  }
}

TEST_CASE(
    "another shape of the same devices: 4 as 2 x 2, rows or columns first; 6 as 2 x 3, 3 x 2") {
  On columns = At("x=2,y=2");
  columns->strides = {1, 2};
  CheckMeshes("a=4", {On(), At("x=2,y=2"), columns}, {7, 5});
  CheckMeshes("a=2,b=3", {On(), At("x=6")}, {11, 5});
  if (Full()) CheckMeshes("a=2,b=3", {At("x=3,y=2"), At("x=6"), At("x=2,y=3")}, {13, 11});
}

TEST_CASE("devices in common, and none") {
  CheckMeshes("a=4", {At("x=3"), At("x=2", 2)}, {7, 5});
  CheckMeshes("a=4", {At("x=3", 1), Strided("y=2", 3, 0), At("1", 2)}, {5, 7});
  CheckMeshes("a=2,b=2", {On(), Strided("x=2", 2, 1)}, {5, 7});
  CheckMeshes("a=3", {At("x=2"), At("x=2", 1)}, {5, 3});
  if (Full()) {
    CheckMeshes("a=2,b=3", {On(), At("x=3"), Strided("x=2,y=2", 1, 1), At("x=5", 1)}, {13, 7});
    CheckMeshes("a=2", {On(), At("1"), At("1", 1)}, {5, 7});
  }
}

TEST_CASE("scalars go to sub-meshes and back") {
  CheckMeshes("a=4", {On(), At("x=3"), At("x=2", 2)}, {});
}

TEST_CASE("from a sub-mesh of one stage to a sub-mesh of the next") {
  const Mesh mesh = *ParseMesh("pipe=2,a=3");
  for (const On& to : {On(), At("x=2", 1)}) {
    CheckAllPairs(mesh, At("x=2"), to, {5, 7}, {});
    CheckAllPairs(mesh, to, At("x=3"), {5, 7}, NodesOfTwo());
  }
}

TEST_CASE("eight devices, three axes: a fixed sample") {
  const Mesh mesh = *ParseMesh("a=2,b=2,c=2");
  const std::vector<On> meshes = {
      On(),         At("x=8"),        At("x=2,y=4"),           At("x=7"),
      At("x=5", 3), At("x=2,y=3", 1), Strided("x=2,y=2", 2, 1)};
  std::mt19937 random(5);
  const auto draw = [&] {
    const On& on = meshes[random() % meshes.size()];
    const std::vector<MeshSbp> all = AllOn(mesh, on, 2);
    return all[random() % all.size()];
  };
  for (int i = 0; i < (Full() ? 200 : 20); ++i) {
    const proto::Cluster cluster = i % 2 == 0 ? proto::Cluster() : NodesOfTwo();
    BoxingCase c{mesh, {13, 11}, draw(), {}, cluster};
    for (int k = 0; k < 8; ++k) c.to.push_back(draw());
    CheckBoxing(c, i);
  }
}

TEST_CASE("a plan whose sub-meshes were edited is refused") {
  const BoxingCase c{*ParseMesh("a=4"), {5, 7}, {At("x=3"), {P()}}, {{At("x=2", 2), {S(0)}}}};
  const auto refusal = [&](const std::string& kernel,
                           const std::function<void(proto::Plan*, proto::Actor*)>& edit) {
    proto::Plan plan = PlanOf(c);
    bool found = false;
    for (proto::Actor& actor : *plan.mutable_program(0)->mutable_actor()) {
      if (actor.kernel() != kernel) continue;
      edit(&plan, &actor);
      found = true;
    }
    CHECK(found);
    return VerifyPlan(plan).ToString();
  };
  const auto says = [](const std::string& text) { return Catch::Contains(text); };
  const auto written = [](proto::Plan* plan, const proto::Actor& actor) {
    return plan->mutable_program(0)
        ->mutable_register_(actor.output(0) - plan->persistent_size())
        ->mutable_layout()
        ->mutable_sub_mesh();
  };
  CHECK(refusal("send_receive", [](proto::Plan*, proto::Actor*) {}) == "OK");
  CHECK_THAT(
      refusal("send_receive", [](proto::Plan*, proto::Actor* a) { a->set_kernel("all_to_all"); }),
      says("leads to another sub-mesh"));
  CHECK_THAT(refusal("reduce_scatter",
                     [](proto::Plan*, proto::Actor* a) { a->set_kernel("send_receive"); }),
             says("sends and receives on one mesh"));
  CHECK_THAT(
      refusal("reduce_scatter",
              [](proto::Plan*, proto::Actor* a) { a->mutable_boxing()->clear_sub_mesh_along(); }),
      says("reads peers along 1 of 1 axes"));
  CHECK_THAT(
      refusal("send_receive",
              [](proto::Plan*, proto::Actor* a) { a->mutable_boxing()->set_sub_mesh_along(0, 3); }),
      says("peers along axis 3 of a sub-mesh"));
  CHECK_THAT(
      refusal("send_receive",
              [](proto::Plan*, proto::Actor* a) { a->mutable_boxing()->clear_sub_mesh_along(); }),
      says("elements it needs on rank"));
  CHECK_THAT(refusal("send_receive",
                     [&](proto::Plan* plan, proto::Actor* a) { written(plan, *a)->set_first(3); }),
             says("reaches from device 3 to 4 of a stage of 4"));
}

}  // namespace
}  // namespace oneflow
