#include "oneflow_core/model/sharding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/forms.h"

namespace oneflow {
namespace {

using Axes = std::vector<std::string>;

constexpr char kData[] = "data";
using Names = google::protobuf::RepeatedPtrField<std::string>;

// The three layouts by name, in the order in which each contains the next.
struct Part {
  std::string_view name;
  Axes Sharding::*axes;
  const Names& (proto::Shard::*names)() const;
  Names* (proto::Shard::*mutable_names)();
};
constexpr Part kParts[] = {
    {"states", &Sharding::states, &proto::Shard::states, &proto::Shard::mutable_states},
    {"gradients", &Sharding::gradients, &proto::Shard::gradients, &proto::Shard::mutable_gradients},
    {"weights", &Sharding::weights, &proto::Shard::weights, &proto::Shard::mutable_weights}};

template <typename List>
bool Has(const List& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The axes of the mesh that `names` stand for, in its order.
absl::StatusOr<Axes> Expand(std::string_view what, const Names& names, const Mesh& mesh) {
  for (const std::string& name : names) {
    if (SplitsTokens(name)) {
      if (name == kData || mesh.FindAxis(name) >= 0) continue;
      return InputError(absl::StrCat(ToAbsl(what), ":", name),
                        absl::StrCat("is no axis of the mesh ", ToString(mesh)),
                        "use data, or a factor of it: data.0 and data.1 of --mesh=data=8x16");
    }
    return InputError(absl::StrCat(ToAbsl(what), ":", name), "is no axis that splits tokens",
                      "use data, or a factor of it such as data.1; tensor axes split weights by "
                      "the model's own layouts");
  }
  Axes axes;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.size < 2 || !SplitsTokens(axis.name)) continue;
    if (Has(names, kData) || Has(names, axis.name)) axes.push_back(axis.name);
  }
  return axes;
}

// `shard`: with the mesh's names of axes.
absl::Status ExpectWithin(const Part& inner, const Part& outer, const proto::Shard& shard) {
  for (const std::string& axis : (shard.*inner.names)()) {
    if (Has((shard.*outer.names)(), axis)) continue;
    return InputError(
        absl::StrCat("--shard=", kShardForm.print(shard)),
        absl::StrCat("splits ", ToAbsl(inner.name), " over ", axis, ", and ", ToAbsl(outer.name),
                     " not: a device would update what it does not hold"),
        absl::StrCat("add ", axis, " to ", ToAbsl(outer.name), ", or take it from ",
                     ToAbsl(inner.name)));
  }
  return absl::OkStatus();
}

}  // namespace

bool SplitsTokens(std::string_view axis) {
  const std::string_view word = axis.substr(0, axis.find('.'));
  return word == kData || word == "expert" || word == "context";
}

absl::StatusOr<Sharding> OnMesh(const proto::Recipe& recipe, const Mesh& mesh, bool has_frozen) {
  Sharding sharding;
  proto::Shard named;
  for (const Part& part : kParts) {
    ASSIGN_OR_RETURN(Axes axes, Expand(absl::StrCat("--shard=", ToAbsl(part.name)),
                                       (recipe.shard().*part.names)(), mesh));
    (named.*part.mutable_names)()->Assign(axes.begin(), axes.end());
    sharding.*part.axes = std::move(axes);
  }
  ASSIGN_OR_RETURN(sharding.reduced,
                   Expand("--reduce=each_micro_batch", recipe.reduce().axis(), mesh));
  RETURN_IF_ERROR(ExpectWithin(kParts[1], kParts[0], named));
  if (has_frozen) {
    sharding.frozen = sharding.weights;
    std::erase_if(sharding.weights,
                  [&](const std::string& axis) { return !Has(sharding.gradients, axis); });
  } else {
    RETURN_IF_ERROR(ExpectWithin(kParts[2], kParts[1], named));
  }
  return sharding;
}

}  // namespace oneflow
