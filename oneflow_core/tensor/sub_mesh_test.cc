#include "oneflow_core/tensor/sub_mesh.h"

#include <catch2/catch.hpp>
#include <climits>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// Sizes and strides: {{2, 3}} is an axis of two devices, three apart.
SubMesh Strided(const std::vector<std::pair<int, int>>& axes, int first) {
  SubMesh sub;
  for (const auto& [size, stride] : axes) {
    sub.mesh.axes.push_back({std::string(1, static_cast<char>('a' + sub.strides.size())), size});
    sub.strides.push_back(stride);
  }
  sub.first = first;
  return sub;
}

TEST_CASE("sub-mesh: coordinates and devices are each other's inverse") {
  for (const SubMesh& sub :
       {DenseSubMesh(*ParseMesh("x=2,y=3")), DenseSubMesh(*ParseMesh("a=3"), 1),
        Strided({{2, 3}}, 2), Strided({{2, 1}, {3, 2}}, 0), Strided({}, 4)}) {
    INFO(ToString(sub));
    REQUIRE(CheckSubMesh(sub, 6, "test").ok());
    int inside = 0;
    for (int device = 0; device < 6; ++device) {
      const auto place = CoordinateIn(sub, device);
      if (!place) continue;
      ++inside;
      CHECK(DeviceAt(sub, *place) == device);
    }
    CHECK(inside == sub.mesh.devices());
  }
}

TEST_CASE("sub-mesh: text leaves out the strides of neighbours") {
  CHECK(ToString(DenseSubMesh(*ParseMesh("x=2,y=3"))) == "x=2,y=3");
  CHECK(ToString(DenseSubMesh(*ParseMesh("a=3"), 1)) == "a=3@1");
  CHECK(ToString(Strided({{2, 3}}, 2)) == "a=2:3@2");
  CHECK(ToString(Strided({}, 0)) == "@0");
}

TEST_CASE("sub-mesh: what does not fit a stage is refused") {
  const auto refusal = [](const SubMesh& sub) {
    return std::string(ToStd(CheckSubMesh(sub, 6, "op x").message()));
  };
  using Catch::Contains;
  CHECK_THAT(refusal(DenseSubMesh(*ParseMesh("a=3"), 4)),
             Contains("op x: sub-mesh a=3@4 reaches from device 4 to 6 of a stage of 6"));
  CHECK_THAT(refusal(DenseSubMesh(*ParseMesh("a=2"), -1)), Contains("from device -1"));
  CHECK_THAT(refusal(Strided({{2, 1}, {2, 1}}, 0)), Contains("names a device twice"));
  CHECK_THAT(refusal(Strided({{2, -1}}, 0)), Contains("has stride -1"));
  CHECK_THAT(refusal(DenseSubMesh(Mesh{{{"pipe", 2}}})), Contains("has an axis \"pipe\""));
  CHECK_THAT(refusal(DenseSubMesh(Mesh{{{"a", 0}}})), Contains("has size 0"));
  // Sizes are read before they are checked: strides that no int holds are no accident.
  const Mesh huge{{{"a", 2}, {"b", INT_MAX}, {"c", INT_MAX}}};
  CHECK(DenseSubMesh(huge).strides == std::vector<int>{INT_MAX, INT_MAX, 1});
  CHECK_THAT(refusal(DenseSubMesh(huge)), Contains("has more than"));
  CHECK_THAT(refusal(DenseSubMesh(Mesh{{{"a", 2}, {"b", INT_MIN}, {"c", INT_MIN}}})),
             Contains("has size -2147483648"));
}

TEST_CASE("sub-mesh: a layout on one leaves the devices outside with nothing, scalars too") {
  const Mesh mesh = *ParseMesh("pipe=2,data=4");
  const Layout rows = LayoutOf({5, 2}, {S(0)}, DenseSubMesh(*ParseMesh("a=3"), 1));
  CHECK(MaxElements(rows, mesh) == 4);
  for (const int stage : {0, 1}) {
    CHECK(SliceOf(rows, mesh, {stage, 0}).elements() == 0);
    CHECK(SliceOf(rows, mesh, {stage, 1}) == Slice{{0, 0}, {2, 2}});
    CHECK(SliceOf(rows, mesh, {stage, 3}) == Slice{{4, 0}, {1, 2}});
  }
  const Layout scalar = LayoutOf({}, {B()}, DenseSubMesh(*ParseMesh("a=3"), 1));
  CHECK(SliceOf(scalar, mesh, {0, 0}).elements() == 0);
  CHECK(SliceOf(scalar, mesh, {0, 1}).elements() == 1);
}

TEST_CASE("sub-mesh: a layout's message keeps it, and is checked against the mesh") {
  const Mesh mesh = *ParseMesh("data=4");
  const Layout layout = LayoutOf({5, 2}, {S(0)}, Strided({{2, 2}}, 1));
  CHECK(*LayoutFromProto(ToProto(layout), mesh, "test") == layout);
  CHECK_THAT(std::string(ToStd(
                 LayoutFromProto(ToProto(layout), *ParseMesh("data=3"), "r").status().message())),
             Catch::Contains("reaches from device 1 to 3 of a stage of 3"));
}

}  // namespace
}  // namespace oneflow
