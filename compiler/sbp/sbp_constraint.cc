#include "compiler/sbp/sbp_constraint.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr std::string_view kConventionalAxes[] = {"data", "tensor", "expert", "context"};

// "data" of "data.1"; the name itself otherwise.
std::string_view BaseName(std::string_view axis) { return axis.substr(0, axis.rfind('.')); }

bool HasAxis(const Mesh& mesh, std::string_view name) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(), [name](const Mesh::Axis& axis) {
    return axis.name == name || BaseName(axis.name) == name;
  });
}

// A graph may be written for meshes that have more axes.
bool IsConventional(std::string_view name) {
  return std::find(std::begin(kConventionalAxes), std::end(kConventionalAxes), BaseName(name)) !=
         std::end(kConventionalAxes);
}

// True if a graph may name the axis: the mesh has it, or other meshes may.
bool IsKnown(const Mesh& mesh, std::string_view name) {
  return HasAxis(mesh, name) || IsConventional(name);
}

std::string AxisList(const Mesh& mesh) {
  std::string list;
  for (const Mesh::Axis& axis : mesh.axes) list += (list.empty() ? "" : ", ") + axis.name;
  return list.empty() ? "no axis" : "the axes " + list;
}

absl::Status CheckAxes(const Graph& graph, const Op& variable, const std::string& attr) {
  const std::vector<std::string> axes =
      absl::StrSplit(AttrString(variable, attr), ',', absl::SkipEmpty());
  for (const std::string& axis : axes) {
    const std::string what = attr + " names axis \"" + axis + '"';
    if (!IsKnown(graph.mesh, axis)) {
      return InputError(Where(variable), what + ", which the mesh has not",
                        "the mesh has " + AxisList(graph.mesh));
    }
    if (axis == "pipe") {
      return InputError(Where(variable), what + ", which selects stages", "leave it out");
    }
  }
  return absl::OkStatus();
}

// Attributes of a variable that say what of it is split (oneflow_core/model/sharding.h).
absl::Status CheckSharding(const Graph& graph, const Op& variable) {
  for (const char* attr : {"gather_once", "states", "gradients", "reduced"}) {
    RETURN_IF_ERROR(CheckAxes(graph, variable, attr));
  }
  const std::vector<std::string> states = absl::StrSplit(AttrString(variable, "states"), ',');
  const std::vector<std::string> gradients =
      absl::StrSplit(AttrString(variable, "gradients"), ',', absl::SkipEmpty());
  for (const std::string& axis : gradients) {
    const auto holds = [&](std::string_view name) {
      return std::find(states.begin(), states.end(), name) != states.end();
    };
    if (holds(axis) || holds(BaseName(axis))) continue;
    return InputError(Where(variable), "gradients names axis \"" + axis + "\", and states does not",
                      "add it to states: a device updates what it has the gradient of");
  }
  const int rank = graph.tensors[variable.outputs[0]].shape.rank();
  const int64_t dim = AttrInt(variable, "split_dim", 0);
  if (dim >= 0 && dim < std::max(rank, 1)) return absl::OkStatus();
  return InputError(Where(variable),
                    "split_dim is " + std::to_string(dim) + ", and the variable has " +
                        std::to_string(rank) + " dims",
                    "dims count from 0");
}

// What of a variable rests in the host's memory (compiler/passes/rest_on_host.cc).
absl::Status CheckHost(const Op& variable) {
  const std::vector<std::string> words = absl::StrSplit(AttrString(variable, "host"), ',');
  for (const std::string& word : words) {
    if (word == "states" || word == "weights" || word == "update") continue;
    if (word.empty() && words.size() == 1) return absl::OkStatus();
    return InputError(Where(variable),
                      "host says \"" + word + "\", which cannot rest in the host's memory",
                      "use some of states, weights and update, joined by commas");
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Sbp> ConstraintOn(const Tensor& tensor, const Mesh& mesh, int axis) {
  const std::string& name = mesh.axes[axis].name;
  if (auto it = tensor.constraint.find(name); it != tensor.constraint.end()) return it->second;
  const std::string base(BaseName(name));
  if (auto it = tensor.constraint.find(base); it != tensor.constraint.end()) return it->second;
  return std::nullopt;
}

absl::Status CheckConstraints(const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (!IsVariable(op)) continue;
    RETURN_IF_ERROR(CheckSharding(graph, op));
    RETURN_IF_ERROR(CheckHost(op));
  }
  for (const Tensor& tensor : graph.tensors) {
    const Op& op = graph.ops[tensor.producer];
    for (const auto& [axis, sbp] : tensor.constraint) {
      const std::string what =
          tensor.name + " is constrained to " + ToString(sbp) + " on axis " + axis;
      if (!IsKnown(graph.mesh, axis)) {
        return InputError(Where(op), what + ", which the mesh has not",
                          "the mesh has " + AxisList(graph.mesh));
      }
      if (axis == "pipe" && !sbp.broadcast()) {
        return InputError(Where(op), what + ", which selects stages", "set `stage` instead");
      }
      if (sbp.split() && sbp.dim >= tensor.shape.rank()) {
        return InputError(Where(op),
                          what + " but has " + std::to_string(tensor.shape.rank()) + " dims",
                          "dims count from 0");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
