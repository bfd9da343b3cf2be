#include "oneflow_core/tensor/tensor_proto.h"

#include <set>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Sizes are at least `smallest` and their product is one we can count with.
absl::Status CheckSizes(const Dims& dims, int64_t smallest, std::string_view where) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < smallest) {
      return InputError(where,
                        "dimension " + std::to_string(i) + " has size " + std::to_string(dims[i]),
                        "sizes are at least " + std::to_string(smallest));
    }
  }
  if (Countable(dims)) return absl::OkStatus();
  return InputError(where, "shape " + ToString(dims) + " has more than 2^48 elements",
                    "use smaller sizes");
}

}  // namespace

absl::StatusOr<DType> DTypeFromProto(proto::DataType type, std::string_view where) {
  switch (type) {
    case proto::DATA_TYPE_UNSPECIFIED:
    case proto::F32: return DType::kF32;
    case proto::F64: return DType::kF64;
    case proto::I32: return DType::kI32;
    case proto::BF16: return DType::kBF16;
    case proto::U8: return DType::kU8;
    default:
      return InputError(where, "element type " + std::to_string(type) + " is not known",
                        "use F32, F64, I32, BF16 or U8");
  }
}

proto::DataType ToProto(DType type) { return static_cast<proto::DataType>(type); }

absl::StatusOr<Shape> ShapeFromProto(const proto::Shape& shape, std::string_view where) {
  Shape result;
  bool named = false;
  for (const proto::Shape::Dim& dim : shape.dim()) {
    if (dim.size() == 0 && dim.name() != "batch") {
      return InputError(where,
                        "dimension " + std::to_string(result.dims.size()) +
                            (dim.name().empty() ? "" : " \"" + dim.name() + "\"") + " has no size",
                        "give a size; only a dimension named \"batch\" is bound at compile time");
    }
    result.dims.push_back(dim.size());
    result.names.push_back(dim.name());
    named |= !dim.name().empty();
  }
  if (!named) result.names.clear();
  RETURN_IF_ERROR(CheckSizes(result.dims, 0, where));
  return result;
}

absl::StatusOr<std::map<std::string, Sbp>> ConstraintFromProto(const proto::NdSbp& sbp,
                                                               std::string_view where) {
  std::map<std::string, Sbp> constraint;
  // The message's map has no order: sorted, so that the first error is always the same one.
  const std::map<std::string, std::string> sorted(sbp.on().begin(), sbp.on().end());
  for (const auto& [axis, text] : sorted) {
    absl::StatusOr<Sbp> parsed = ParseSbp(text);
    if (!parsed.ok()) {
      return Annotate(parsed.status(), std::string(where) + ": on axis \"" + axis + "\"");
    }
    constraint[axis] = *parsed;
  }
  return constraint;
}

absl::StatusOr<Mesh> MeshFromProto(const proto::Mesh& mesh, std::string_view where) {
  Mesh result;
  for (const proto::Mesh::Axis& axis : mesh.axis()) {
    result.axes.push_back({axis.name(), axis.size()});
  }
  RETURN_IF_ERROR(CheckMesh(result, where));
  return result;
}

proto::Mesh ToProto(const Mesh& mesh) {
  proto::Mesh result;
  for (const Mesh::Axis& axis : mesh.axes) {
    proto::Mesh::Axis* added = result.add_axis();
    added->set_name(axis.name);
    added->set_size(axis.size);
  }
  return result;
}

absl::StatusOr<Layout> LayoutFromProto(const proto::Layout& layout, const Mesh& mesh,
                                       std::string_view where) {
  Layout result;
  result.dims.assign(layout.dim().begin(), layout.dim().end());
  RETURN_IF_ERROR(CheckSizes(result.dims, 1, where));
  std::set<int> used;
  for (const proto::Layout::Split& split : layout.split()) {
    if (split.dim() < 0 || split.dim() >= layout.dim_size()) {
      return InputError(where, "split of dimension " + std::to_string(split.dim()) + " of " +
                                   ToString(result.dims));
    }
    if (split.axis() < 0 || split.axis() >= static_cast<int>(mesh.axes.size())) {
      return InputError(
          where, "split by axis " + std::to_string(split.axis()) + " of mesh " + ToString(mesh));
    }
    if (!used.insert(split.axis()).second) {
      return InputError(where, "axis \"" + mesh.axes[split.axis()].name + "\" splits twice");
    }
    result.splits.push_back({split.dim(), split.axis()});
  }
  return result;
}

proto::Layout ToProto(const Layout& layout) {
  proto::Layout result;
  for (const int64_t d : layout.dims) result.add_dim(d);
  for (const Layout::Split& split : layout.splits) {
    proto::Layout::Split* added = result.add_split();
    added->set_dim(split.dim);
    added->set_axis(split.axis);
  }
  return result;
}

}  // namespace oneflow
