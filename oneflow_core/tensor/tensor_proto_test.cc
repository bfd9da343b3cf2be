#include "oneflow_core/tensor/tensor_proto.h"

#include <google/protobuf/text_format.h>
#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

template <typename Message>
Message FromText(const std::string& text) {
  Message message;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

template <typename T>
std::string Error(const absl::StatusOr<T>& result) {
  return std::string(ToStd(result.status().message()));
}

}  // namespace

TEST_CASE("values come back from their messages") {
  for (const DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kU8}) {
    CHECK(*DTypeFromProto(ToProto(t), "") == t);
  }
  CHECK(*DTypeFromProto(proto::DATA_TYPE_UNSPECIFIED, "") == DType::kF32);

  const Mesh mesh = *ParseMesh("pipe=2,data=2x2");
  CHECK(*MeshFromProto(ToProto(mesh)) == mesh);
  const Layout layout = MakeLayout({5, 7}, {B(), S(1), S(0)});
  CHECK(*LayoutFromProto(ToProto(layout), mesh, "") == layout);
}

TEST_CASE("shapes and constraints are read") {
  const auto shape = [](const char* text) {
    return *ShapeFromProto(FromText<proto::Shape>(text), "");
  };
  CHECK(shape("dim { name: \"batch\" } dim { size: 128 }") == Shape{0, 128});
  CHECK(shape("dim { name: \"batch\" } dim { size: 128 }").names ==
        std::vector<std::string>{"batch", ""});
  CHECK(shape("dim { size: 2 } dim { size: 3 }").names.empty());
  const auto sbp = FromText<proto::NdSbp>(
      "on { key: \"data\" value: \"S(0)\" } on { key: \"tensor\" value: \"Pmax\" }");
  CHECK(*ConstraintFromProto(sbp, "") ==
        std::map<std::string, Sbp>{{"data", S(0)}, {"tensor", PMax()}});
}

TEST_CASE("only a dimension named batch may wait for its size") {
  CHECK(
      Error(ShapeFromProto(FromText<proto::Shape>("dim { size: 2 } dim { name: \"seq\" }"), "x")) ==
      "x: dimension 1 \"seq\" has no size; give a size; "
      "only a dimension named \"batch\" is bound at compile time");
  CHECK(Error(ShapeFromProto(FromText<proto::Shape>("dim { size: -3 }"), "x")) ==
        "x: dimension 0 has size -3; sizes are at least 0");
  CHECK(Error(ShapeFromProto(
            FromText<proto::Shape>("dim { size: 4294967296 } dim { size: 4294967296 }"), "x")) ==
        "x: shape [4294967296,4294967296] has more than 2^48 elements; use smaller sizes");
}

TEST_CASE("a bad mesh or constraint says where") {
  CHECK(Error(MeshFromProto(FromText<proto::Mesh>("axis { name: \"data\" }"), "a.plan: mesh")) ==
        "a.plan: mesh: axis \"data\" has size 0; sizes are at least 1");
  CHECK(Error(ConstraintFromProto(FromText<proto::NdSbp>("on { key: \"data\" value: \"S0\" }"),
                                  "op \"x\"")) ==
        "op \"x\": on axis \"data\": SBP \"S0\": is malformed; "
        "use B, P, Pmax, or S(i) with i the dimension that is split");
}

TEST_CASE("a layout splits dimensions and axes that exist, each axis once") {
  const Mesh mesh = *ParseMesh("data=2,tensor=2");
  const auto read = [&](const std::string& text) {
    return Error(LayoutFromProto(FromText<proto::Layout>(text), mesh, "r"));
  };
  CHECK(read("dim: [4,4] split { dim: 2 axis: 0 }") == "r: split of dimension 2 of [4,4]");
  CHECK(read("dim: [4,4] split { dim: 0 axis: 5 }") ==
        "r: split by axis 5 of mesh data=2,tensor=2");
  CHECK(read("dim: 4 split { axis: 1 } split { axis: 1 }") == "r: axis \"tensor\" splits twice");
  CHECK(read("dim: 0") == "r: dimension 0 has size 0; sizes are at least 1");
}

}  // namespace oneflow
