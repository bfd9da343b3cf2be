#include "planning/search/ordinary.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "oneflow_core/recipe/forms.h"
#include "planning/search/list_meshes.h"
#include "planning/search/short_plan.h"

namespace oneflow {
namespace {

// A form of ordinary plans; each of its axes has several devices, no other but data has.
struct OrdinaryForm {
  std::string_view axes;       // in the order of a mesh
  std::string_view schedules;  // each with and without chunks, as it is
  std::string_view shards;
};
constexpr OrdinaryForm kForms[] = {
    {"", "1f1b", "none states weights"},
    {"tensor", "1f1b", "none states weights"},
    {"expert", "1f1b", "states weights"},
    {"expert,tensor", "1f1b", "states weights"},
    {"context", "1f1b", "states weights"},
    {"context,tensor", "1f1b", "states weights"},
    {"pipe", "1f1b interleaved", "none states"},
    {"pipe,tensor", "1f1b interleaved", "none states gradients"},
    {"pipe,expert", "1f1b interleaved", "none states"},
    {"pipe,expert,tensor", "1f1b interleaved", "none states"},
    {"pipe,context,tensor", "1f1b interleaved", "none states"},
};

constexpr int kMostTensor = 8;
// Sequences of a part of the batch in a micro-batch.
constexpr int64_t kSequences[] = {1, 2};

bool Has(std::string_view words, const std::string& word) {
  return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

std::string SplitAxes(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const char* axis : {"pipe", "expert", "context", "tensor"}) {
    if (FindDegree(mesh, axis) > 1) axes.emplace_back(axis);
  }
  return absl::StrJoin(axes, ",");
}

bool IsOrdinary(const SearchSpec& spec, int blocks, const proto::Recipe& group) {
  const Mesh mesh = FindMesh(group);
  const int tensor = FindDegree(mesh, "tensor"), data = FindDegree(mesh, "data");
  const int inner = tensor * FindDegree(mesh, "context") * FindDegree(mesh, "expert");
  const proto::Cluster& cluster = spec.given.cluster;
  const int64_t node = cluster.level().empty() ? 0 : cluster.level(0).size();
  if (tensor > kMostTensor || (node > 0 && inner > node)) return false;
  if (group.chunks() > 1 && blocks % (mesh.stages() * group.chunks()) != 0) return false;
  const int64_t parts = int64_t{data} * FindDegree(mesh, "expert");
  const int64_t sequences = FindMostSequences(FindShortSpec(spec.given, group).sequences, 1, parts);
  const bool few =
      std::find(std::begin(kSequences), std::end(kSequences), sequences) != std::end(kSequences);
  if (!few && group.micro_batches() > 1) return false;
  const std::string axes = SplitAxes(mesh), shard = kShardForm.print(group.shard());
  return std::any_of(std::begin(kForms), std::end(kForms), [&](const OrdinaryForm& form) {
    return form.axes == axes && Has(form.schedules, group.schedule()) && Has(form.shards, shard);
  });
}

}  // namespace

std::vector<proto::Recipe> FindOrdinary(const SearchSpec& spec,
                                        const std::vector<proto::Recipe>& groups) {
  const int blocks = FindModelShape(spec.source.graph).blocks;
  std::vector<proto::Recipe> ordinary;
  for (const proto::Recipe& group : groups) {
    if (IsOrdinary(spec, blocks, group)) ordinary.push_back(group);
  }
  return ordinary;
}

}  // namespace oneflow
