#include "compiler/lower/groups.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "compiler/boxing/boxing_primitive.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

struct Key {
  std::pair<int, int> stages = {-1, -1};
  std::vector<int> axes;
  auto operator<=>(const Key&) const = default;
};

std::optional<Key> MakeKey(const Graph& graph, const Op& op) {
  if (IsTransfer(op.kind)) return Key{{graph.Producer(op.inputs[0]).stage, op.stage}, {}};
  const NdSbp &from = graph.tensors[op.inputs[0]].sbp, &to = graph.tensors[op.outputs[0]].sbp;
  const BoxingPrimitive primitive = PrimitiveBetween(graph.mesh, from, to);
  if (primitive.along.empty()) return std::nullopt;
  return Key{{-1, -1}, primitive.along};
}

Key MakeKey(const proto::Group& group) {
  if (group.has_stages()) return {{group.stages().from(), group.stages().to()}, {}};
  return {{-1, -1}, {group.axis().begin(), group.axis().end()}};
}

proto::Group MakeGroup(const Key& key, const Mesh& mesh) {
  proto::Group group;
  std::string name;
  if (key.axes.empty()) {
    const auto& [from, to] = key.stages;
    name = absl::StrCat("stage ", from, " to ", to);
    group.mutable_stages()->set_from(from);
    group.mutable_stages()->set_to(to);
  }
  for (const int axis : key.axes) {
    absl::StrAppend(&name, name.empty() ? "" : ",", mesh.axes[axis].name);
    group.add_axis(axis);
  }
  group.set_name(name);
  return group;
}

}  // namespace

std::vector<proto::Group> FindGroups(const std::vector<const Graph*>& graphs) {
  std::set<Key> keys;
  for (const Graph* graph : graphs) {
    for (const Op& op : graph->ops) {
      if (!IsBoxing(op.kind)) continue;
      if (std::optional<Key> key = MakeKey(*graph, op)) keys.insert(*std::move(key));
    }
  }
  std::vector<proto::Group> groups;
  groups.reserve(keys.size());
  for (const Key& key : keys) groups.push_back(MakeGroup(key, graphs.front()->mesh));
  return groups;
}

int FindGroup(const google::protobuf::RepeatedPtrField<proto::Group>& groups, const Graph& graph,
              const Op& op) {
  const std::optional<Key> key = MakeKey(graph, op);
  if (!key) return -1;
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const proto::Group& group) {
    return MakeKey(group) == *key;
  });
  CHECK(found != groups.end()) << op.name << " has no group";
  return static_cast<int>(found - groups.begin());
}

}  // namespace oneflow
