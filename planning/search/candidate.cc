#include "planning/search/candidate.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/recipe/complete_recipe.h"

namespace oneflow {

std::span<const Row> CandidateRows() {
  static const auto& rows = *[] {
    auto* chosen = new std::vector<Row>;
    for (const Row& row : RecipeRows()) {
      const bool mesh = row.name == "mesh" || row.name == "keep_axis_order";
      if (mesh || row.searched == Searched::kChosen) chosen->push_back(row);
    }
    return chosen;
  }();
  return rows;
}

proto::Recipe MakeCandidate(const proto::Recipe& said) {
  return CandidateRequest({}, WithDefaults(said)).recipe;
}

bool IsSame(const proto::Recipe& a, const proto::Recipe& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

bool IsSameGroup(proto::Recipe a, proto::Recipe b) {
  for (proto::Recipe* recipe : {&a, &b}) {
    recipe->clear_recompute();
    recipe->clear_stage_layers();
  }
  return IsSame(a, b);
}

Mesh FindMesh(const proto::Recipe& candidate) {
  Mesh mesh;
  for (const auto& axis : candidate.mesh().axis()) mesh.axes.push_back({axis.name(), axis.size()});
  return mesh;
}

int FindDegree(const Mesh& mesh, std::string_view axis) {
  int degree = 1;
  for (const Mesh::Axis& a : mesh.axes) {
    if (std::string_view(a.name).substr(0, a.name.find('.')) == axis) degree *= a.size;
  }
  return degree;
}

bool GathersActivations(const proto::Recipe& candidate) {
  return candidate.sequence_parallel() || FindDegree(FindMesh(candidate), "context") > 1;
}

PlanRequest CandidateRequest(const PlanRequest& given, const proto::Recipe& candidate) {
  PlanRequest request = given;
  for (const Row& row : CandidateRows()) CopyField(row, candidate, &request.recipe);
  return request;
}

std::string CandidateFlags(proto::Recipe candidate) {
  static const auto& plain = *new proto::Recipe(WithDefaults({}));
  candidate.mutable_mesh();
  for (const Row& row : CandidateRows()) {
    if (FieldText(row, candidate) == FieldText(row, plain)) ClearField(row, &candidate);
  }
  return FlagsText(CandidateRows(), candidate);
}

std::string BitsKey(const proto::Recipe& candidate) {
  Mesh mesh = FindMesh(candidate);
  std::erase_if(mesh.axes,
                [](const Mesh::Axis& axis) { return axis.size == 1 || axis.name == "pipe"; });
  std::string key =
      absl::StrCat("mesh ", ToString(mesh), ", micro-batches ", candidate.micro_batches());
  if (candidate.sequence_parallel() && FindDegree(mesh, "tensor") > 1) key += ", positions split";
  // What is frozen has no gradients, so it moves no bit.
  const Sharding shard = OnMesh(candidate, mesh, /*has_frozen=*/true).value_or(Sharding());
  if (candidate.micro_batches() > 1 && !shard.gradients.empty()) {
    absl::StrAppend(&key, ", gradients summed each micro-batch over ",
                    absl::StrJoin(shard.gradients, "+"));
  }
  // Over two axes or factors that split together, the sum goes axis by axis.
  if (shard.states.size() > 1) {
    absl::StrAppend(&key, ", axis by axis over ", absl::StrJoin(shard.states, "+"));
  }
  return key;
}

}  // namespace oneflow
