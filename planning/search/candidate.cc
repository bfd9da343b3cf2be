#include "planning/search/candidate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

std::string_view AxisName(const Mesh::Axis& axis) {
  return std::string_view(axis.name).substr(0, axis.name.find('.'));
}

// The axes over which gradients are split; "data" stands for all that split tokens.
std::vector<std::string> SplitAxes(const Mesh& mesh, const std::vector<std::string>& names) {
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

CompileOptions CandidateOptions(const CompileOptions& given, const Candidate& candidate) {
  const PlanFamily& family = candidate.family;
  CompileOptions options = given;
  options.mesh = family.mesh;
  options.keep_axis_order = family.keep_axis_order;
  options.train.set_micro_batches(family.micro_batches);
  options.train.set_schedule(family.schedule);
  options.train.set_chunks(family.chunks > 1 ? family.chunks : 0);
  options.train.set_extra_in_flight(family.extra_in_flight);
  options.train.set_recompute(candidate.blocks.recompute.empty() ? "none"
                                                                 : candidate.blocks.recompute);
  options.stage_layers = candidate.blocks.stage_layers;
  options.split_positions = family.split_positions;
  options.shard.states = family.shard.states;
  options.shard.gradients = family.shard.gradients;
  options.shard.weights = family.shard.weights;
  options.offload.activations = family.offload.activations;
  options.offload.states = family.offload.states;
  options.offload.weights = family.offload.weights;
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
  const Sharding shard = {.states = family.shard.states,
                          .gradients = family.shard.gradients,
                          .weights = family.shard.weights};
  add(!shard.empty(), "shard", ToString(shard));
  const std::string offload = ToString(family.offload);
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
  const std::vector<std::string> gradients = SplitAxes(mesh, family.shard.gradients);
  if (family.micro_batches > 1 && !gradients.empty()) {
    absl::StrAppend(&key, ", gradients summed each micro-batch over ",
                    absl::StrJoin(gradients, "+"));
  }
  // Over two axes or factors that split together, the sum goes axis by axis.
  const std::vector<std::string> states = SplitAxes(mesh, family.shard.states);
  if (states.size() > 1) {
    absl::StrAppend(&key, ", axis by axis over ", absl::StrJoin(states, "+"));
  }
  return key;
}

}  // namespace oneflow
