#include "oneflow_core/tensor/mesh.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

std::string Error(std::string_view text) {
  return std::string(ToStd(ParseMesh(text).status().message()));
}

}  // namespace

TEST_CASE("a mesh reads what it prints") {
  for (const char* text : {"1", "data=2", "pipe=2,data=2,tensor=3", "data=8x4,tensor=2",
                           "data=2x2x2", "data=1", "data.0=4", "a.0=2,b=3"}) {
    const Mesh mesh = *ParseMesh(text);
    CHECK(ToString(mesh) == text);
    CHECK(*ParseMesh(ToString(mesh)) == mesh);
  }
  CHECK(ParseMesh("")->axes.empty());
}

TEST_CASE("a factored axis is several axes") {
  const Mesh mesh = *ParseMesh("data=8x4");
  CHECK(mesh.axes == std::vector<Mesh::Axis>{{"data.0", 8}, {"data.1", 4}});
  CHECK(mesh.devices() == 32);
}

TEST_CASE("ranks are row-major coordinates") {
  const Mesh mesh = *ParseMesh("pipe=2,data=3,tensor=2");
  CHECK(mesh.devices() == 12);
  CHECK(mesh.RankToCoordinate(0) == Coordinate{0, 0, 0});
  CHECK(mesh.RankToCoordinate(7) == Coordinate{1, 0, 1});
  CHECK(mesh.RankToCoordinate(11) == Coordinate{1, 2, 1});
  for (int rank = 0; rank < 12; ++rank)
    CHECK(mesh.CoordinateToRank(mesh.RankToCoordinate(rank)) == rank);
}

TEST_CASE("the axis pipe selects the stage, wherever it stands") {
  const Mesh mesh = *ParseMesh("data=2,pipe=2,tensor=2");
  CHECK(mesh.stage_axis() == 1);
  CHECK(mesh.stages() == 2);
  CHECK(mesh.RankToStage(2) == 1);
  const Mesh flat = *ParseMesh("data=3");
  CHECK(flat.stage_axis() == -1);
  CHECK(flat.stages() == 1);
  CHECK(flat.RankToStage(2) == 0);
}

TEST_CASE("peers take all values along the given axes, in rank order") {
  const Mesh mesh = *ParseMesh("pipe=2,data=2,tensor=3");
  const Coordinate c = {1, 1, 2};  // rank 11
  CHECK(mesh.Peers(c, {}) == std::vector<int>{11});
  CHECK(mesh.Peers(c, {2}) == std::vector<int>{9, 10, 11});
  CHECK(mesh.Peers(c, {1}) == std::vector<int>{8, 11});
  CHECK(mesh.Peers(c, {0}) == std::vector<int>{5, 11});
  CHECK(mesh.Peers(c, {1, 2}) == std::vector<int>{6, 7, 8, 9, 10, 11});
  CHECK(mesh.Peers(c, {2, 0}) == std::vector<int>{3, 4, 5, 9, 10, 11});
}

TEST_CASE("a bad mesh is told with the flag, the fault and the hint") {
  CHECK(Error("data") ==
        "--mesh=data: \"data\" has no size; write axis=size, e.g. pipe=2,data=2,tensor=2");
  CHECK(Error("data=2,") ==
        "--mesh=data=2,: \"\" has no size; write axis=size, e.g. pipe=2,data=2,tensor=2");
  CHECK(Error("data=two") ==
        "--mesh=data=two: \"two\" is no size for axis \"data\"; "
        "write axis=size, e.g. pipe=2,data=2,tensor=2");
  CHECK(Error("data=2,data=4") ==
        "--mesh=data=2,data=4: axis \"data\" is given twice; give each axis once");
  CHECK(Error("data=0") == "--mesh=data=0: axis \"data\" has size 0; sizes are at least 1");
  CHECK(Error("data=-2") == "--mesh=data=-2: axis \"data\" has size -2; sizes are at least 1");
  CHECK(Error("=2") ==
        "--mesh==2: axis \"\" has no valid name; use lower-case letters, digits and _, a letter "
        "first");
  CHECK(Error("pipe=2x2") ==
        "--mesh=pipe=2x2: axis \"pipe\" selects the stage and cannot be factored; "
        "give it one size");
  CHECK(Error("data=2000000") ==
        "--mesh=data=2000000: has more than 1048576 devices; use smaller sizes");
  CHECK_FALSE(ParseMesh("data=99999999999").ok());
  CHECK_FALSE(ParseMesh("data=8x").ok());
  CHECK_FALSE(ParseMesh("data=65536,tensor=65536,x=65536,y=65536").ok());
}

}  // namespace oneflow
