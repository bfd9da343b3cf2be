// Converts between the messages of proto/tensor.proto and the values of this folder. The way from a
// message checks all properties of a value, since messages come from files. `where` (a file, an op)
// begins the errors.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/tensor.pb.h"

namespace oneflow {

// DATA_TYPE_UNSPECIFIED is f32.
absl::StatusOr<DType> DTypeFromProto(proto::DataType type, std::string_view where);
proto::DataType ToProto(DType type);

// A size of 0 is allowed where the dimension's name is "batch": it is bound at compile time.
absl::StatusOr<Shape> ShapeFromProto(const proto::Shape& shape, std::string_view where);

// An nd-SBP by axis name, as users write it: an axis that is not named is free (in a constraint).
// The existence of axes is not checked, because there is no mesh.
absl::StatusOr<std::map<std::string, Sbp>> ConstraintFromProto(const proto::NdSbp& sbp,
                                                               std::string_view where);

absl::StatusOr<Mesh> MeshFromProto(const proto::Mesh& mesh, std::string_view where = "mesh");
proto::Mesh ToProto(const Mesh& mesh);

// Checks that dimensions and axes of all splits exist, and that no axis splits two dimensions.
absl::StatusOr<Layout> LayoutFromProto(const proto::Layout& layout, const Mesh& mesh,
                                       std::string_view where);
proto::Layout ToProto(const Layout& layout);

}  // namespace oneflow
