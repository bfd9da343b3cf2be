#include "planning/search/candidate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

std::string_view AxisName(const Mesh::Axis& axis) {
  return std::string_view(axis.name).substr(0, axis.name.find('.'));
}

// The axes over which gradients are split; "data" stands for all that split tokens.
std::vector<std::string> SplitAxes(const Mesh& mesh,
                                   const google::protobuf::RepeatedPtrField<std::string>& names) {
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.size > 1 && SplitsTokens(axis.name) && (has("data") || has(axis.name))) {
      axes.push_back(axis.name);
    }
  }
  return axes;
}

}  // namespace

int FindDegree(const Mesh& mesh, std::string_view axis) {
  int degree = 1;
  for (const Mesh::Axis& a : mesh.axes) {
    if (AxisName(a) == axis) degree *= a.size;
  }
  return degree;
}

bool GathersActivations(const PlanFamily& family) {
  return family.split_positions || FindDegree(family.mesh, "context") > 1;
}

bool PlanFamily::operator==(const PlanFamily& other) const {
  const auto of = [](const PlanFamily& family) {
    return CandidateOptions({}, {family, {}}).recipe.SerializeAsString();
  };
  return of(*this) == of(other);
}

PlanRequest CandidateOptions(const PlanRequest& given, const Candidate& candidate) {
  const PlanFamily& family = candidate.family;
  PlanRequest options = given;
  proto::Recipe& recipe = options.recipe;
  *recipe.mutable_mesh() = ToProto(family.mesh);
  recipe.set_keep_axis_order(family.keep_axis_order);
  recipe.set_micro_batches(family.micro_batches);
  recipe.set_schedule(family.schedule);
  recipe.clear_chunks();
  if (family.chunks > 1) recipe.set_chunks(family.chunks);
  recipe.set_extra_in_flight(family.extra_in_flight);
  *recipe.mutable_recompute() = RecipeOf("--recompute=" + (candidate.blocks.recompute.empty() ? "none" : candidate.blocks.recompute)).recompute();
  recipe.clear_stage_layers();
  if (!candidate.blocks.stage_layers.empty()) {
    recipe.mutable_stage_layers()->mutable_layers()->Assign(candidate.blocks.stage_layers.begin(),
                                                            candidate.blocks.stage_layers.end());
  }
  recipe.set_sequence_parallel(family.split_positions);
  *recipe.mutable_shard() = family.shard;
  *recipe.mutable_offload() = family.offload;
  return options;
}

std::string CandidateFlags(const Candidate& candidate) {
  const PlanFamily& family = candidate.family;
  std::string flags = "--mesh=" + ToString(family.mesh);
  const auto add = [&](bool differs, const char* name, const std::string& value) {
    if (differs) absl::StrAppend(&flags, " --", name, value.empty() ? "" : "=", value);
  };
  add(family.keep_axis_order && family.mesh.axes.size() > 1, "keep_axis_order", "");
  add(family.micro_batches != 1, "micro_batches", absl::StrCat(family.micro_batches));
  add(family.schedule != "1f1b", "schedule", family.schedule);
  add(family.chunks > 1, "chunks", absl::StrCat(family.chunks));
  add(family.extra_in_flight != 0, "extra_in_flight", absl::StrCat(family.extra_in_flight));
  add(family.split_positions, "sequence_parallel", "");
  const std::string shard = kShardForm.print(family.shard);
  add(shard != "none", "shard", shard);
  const std::string offload = kOffloadForm.print(family.offload);
  add(offload != "none", "offload", offload);
  const std::string& recompute = candidate.blocks.recompute;
  add(!recompute.empty() && recompute != "none", "recompute", recompute);
  const std::vector<int>& layers = candidate.blocks.stage_layers;
  add(!layers.empty(), "stage_layers", absl::StrJoin(layers, ","));
  return flags;
}

std::string BitsKey(const Candidate& candidate) {
  const PlanFamily& family = candidate.family;
  Mesh mesh = family.mesh;
  std::erase_if(mesh.axes,
                [](const Mesh::Axis& axis) { return axis.size == 1 || axis.name == "pipe"; });
  std::string key = absl::StrCat("mesh ", ToString(mesh), ", micro-batches ", family.micro_batches);
  if (family.split_positions && FindDegree(mesh, "tensor") > 1) key += ", positions split";
  const std::vector<std::string> gradients = SplitAxes(mesh, family.shard.gradients());
  if (family.micro_batches > 1 && !gradients.empty()) {
    absl::StrAppend(&key, ", gradients summed each micro-batch over ",
                    absl::StrJoin(gradients, "+"));
  }
  // Over two axes or factors that split together, the sum goes axis by axis.
  const std::vector<std::string> states = SplitAxes(mesh, family.shard.states());
  if (states.size() > 1) {
    absl::StrAppend(&key, ", axis by axis over ", absl::StrJoin(states, "+"));
  }
  return key;
}

}  // namespace oneflow
