#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/emit.h"
#include "tools/foreign/emit/fates.h"
#include "tools/foreign/emit/round_systems.h"

namespace oneflow::foreign {
namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"megatron", "Megatron-LM"},
                                                                    {"bridge", "Megatron-Bridge"},
                                                                    {"torchtitan", "torchtitan"},
                                                                    {"deepspeed", "DeepSpeed"},
                                                                    {"accelerate", "accelerate"}};

absl::Status CheckPurpose(System system, const proto::Recipe& recipe) {
  const std::string where = absl::StrCat("--emit=", ToAbsl(SystemWord(system)));
  if (recipe.purpose() != proto::Recipe::TRAINING) {
    return InputError(where, "is for a plan that trains", "compile the plan of a training");
  }
  if (recipe.device() != proto::CUDA) {
    return InputError(where,
                      absl::StrCat("is for GPUs, and the plan is for CPUs: ",
                                   ToAbsl(SystemName(system)), " trains on GPUs"),
                      "add --device=cuda and the cluster, as --cluster=h100");
  }
  return absl::OkStatus();
}

absl::Status CheckModelFor(System system, const Job& job, const AxisDegrees& degrees) {
  switch (system) {
    case System::kMegatron:
    case System::kBridge: return CheckMegatron(system, job, degrees);
    case System::kTorchtitan: return CheckTorchtitan(job, degrees);
    case System::kDeepSpeed:
    case System::kAccelerate: return CheckTrainer(system, job, degrees);
  }
  return absl::OkStatus();
}

// What all systems lack: a user's own order, weights that lag, micro-batches beyond the schedule's.
void RoundCommon(Job* job, const AxisDegrees& degrees) {
  proto::Recipe& recipe = job->recipe;
  if (recipe.has_order()) {
    recipe.clear_order();
    const auto chunks = static_cast<int32_t>(FindSlices(*job).size() / degrees.pipe);
    recipe.set_schedule(chunks > 1 ? "interleaved" : "1f1b");
    recipe.set_chunks(std::max(chunks, 1));
    recipe.set_extra_in_flight(0);
    recipe.set_staleness(0);
  }
  if (recipe.schedule() == "pipedream" || recipe.schedule() == "2bw") recipe.set_schedule("1f1b");
  recipe.set_staleness(0);
  if (recipe.steps_a_round() > 1) recipe.clear_steps_a_round();
  recipe.set_extra_in_flight(0);
  recipe.set_loss_pieces(0);
}

void RoundSystem(System system, Job* job, const AxisDegrees& degrees) {
  RoundCommon(job, degrees);
  switch (system) {
    case System::kMegatron:
    case System::kBridge: return RoundMegatron(job, degrees);
    case System::kTorchtitan: return RoundTorchtitan(job, degrees);
    case System::kDeepSpeed: return RoundDeepSpeed(job, degrees);
    case System::kAccelerate: return RoundAccelerate(job, degrees);
  }
}

constexpr std::string_view kGathers =
    "the backward gathers positions again where the system keeps parts of activations, else not";

// A recompute without what says of gathers.
std::string DropGather(const std::string& recompute) {
  const size_t gather = recompute.find(",gather");
  return recompute.substr(0, gather);
}

// The rows that differ, each with its reason. A choice that acts here alone is no loss.
void ListRoundings(System system, std::span<const Row> rows, const google::protobuf::Message& from,
                   const google::protobuf::Message& to, std::vector<Rounding>* roundings) {
  for (const Row& row : rows) {
    const std::string before = FieldText(row, from), after = FieldText(row, to);
    const RowFate fate = FateIn(system, row.name);
    if (before == after || fate.fate == Fate::kHere) continue;
    const bool gathers = row.name == "recompute" && DropGather(before) == DropGather(after);
    roundings->push_back(
        {std::string(row.name), before, after, std::string(gathers ? kGathers : fate.why)});
  }
}

// The mesh and what is split over it as a system's words say them, so that a job that says the same
// with other names of axes is not rounded.
proto::Recipe InOurWords(const proto::Recipe& recipe) {
  proto::Recipe same = WithDefaults(recipe);
  const proto::Shard names = same.shard();
  proto::Mesh mesh;
  for (const auto& axis : same.mesh().axis()) {
    if (axis.size() > 1) *mesh.add_axis() = axis;
  }
  *same.mutable_mesh() = mesh;
  // The axes of a list in the order of the mesh; all factors of a name by that name.
  const auto expand = [&](const auto& list) {
    const auto is_named = [&](const std::string& axis) {
      return std::any_of(list.begin(), list.end(), [&](const std::string& name) {
        return name == axis || name == axis.substr(0, axis.find('.'));
      });
    };
    std::vector<std::string> axes;
    for (const auto& axis : mesh.axis()) {
      if (!is_named(axis.name())) continue;
      const std::string word = axis.name().substr(0, axis.name().find('.'));
      const bool all = std::all_of(mesh.axis().begin(), mesh.axis().end(), [&](const auto& other) {
        return other.name().substr(0, other.name().find('.')) != word || is_named(other.name());
      });
      const std::string& name = all ? word : axis.name();
      if (std::find(axes.begin(), axes.end(), name) == axes.end()) axes.push_back(name);
    }
    return axes;
  };
  proto::Shard shard;
  for (const std::string& axis : expand(names.states())) shard.add_states(axis);
  for (const std::string& axis : expand(names.gradients())) shard.add_gradients(axis);
  for (const std::string& axis : expand(names.weights())) shard.add_weights(axis);
  *same.mutable_shard() = shard;
  proto::ReducedAxes reduced;
  for (const std::string& axis : expand(same.reduce().axis())) reduced.add_axis(axis);
  *same.mutable_reduce() = reduced;
  return same;
}

}  // namespace

std::string_view SystemWord(System system) { return kNames[static_cast<int>(system)].first; }
std::string_view SystemName(System system) { return kNames[static_cast<int>(system)].second; }

absl::StatusOr<System> FindSystem(std::string_view word) {
  std::vector<std::string> words;
  for (const System system : kSystems) {
    if (SystemWord(system) == word) return system;
    words.emplace_back(SystemWord(system));
  }
  const std::string meant = Nearest(std::string(word), words);
  return InputError(absl::StrCat("--emit=", ToAbsl(word)), "is no system that is known",
                    absl::StrCat(meant.empty() ? "" : "did you mean " + meant + "? ", "use one of ",
                                 absl::StrJoin(words, ", ")));
}

std::vector<int> FindSlices(const Job& job) {
  const auto& layers = job.recipe.stage_layers().layers();
  if (!layers.empty()) return {layers.begin(), layers.end()};
  return {static_cast<int>(job.model.layers())};
}

absl::StatusOr<std::vector<Rounded>> RoundFor(System system, const Job& given) {
  Job job = given;
  job.recipe = InOurWords(given.recipe);
  SetDefaults(OptimizerRows(), &job.optimizer);
  RETURN_IF_ERROR(CheckPurpose(system, job.recipe));
  ASSIGN_OR_RETURN(AxisDegrees degrees, FindDegrees(job.recipe));
  if (job.model.experts() == 0) degrees.expert = 1;
  if (job.recipe.schedule() == "zero_bubble" && !job.recipe.has_warm_ups() && degrees.pipe > 1) {
    *job.recipe.mutable_warm_ups() = EqualWarmUps(degrees.pipe, job.recipe.micro_batches());
  }
  RETURN_IF_ERROR(FindMicroBatch(job.recipe, degrees).status());
  RETURN_IF_ERROR(CheckModelFor(system, job, degrees));
  const SlicePolicies policies =
      FindPolicies(job.recipe.recompute(), FindSlices(job), job.block_classes);
  std::vector<Rounded> nearest;
  for (const proto::Recompute& recompute : NearRecompute(system, policies)) {
    Rounded rounded{.job = job};
    const bool gather = job.recipe.recompute().gather();
    *rounded.job.recipe.mutable_recompute() = recompute;
    rounded.job.recipe.mutable_recompute()->set_gather(gather);
    RoundSystem(system, &rounded.job, degrees);
    ListRoundings(system, RecipeRows(), job.recipe, rounded.job.recipe, &rounded.roundings);
    ListRoundings(system, OptimizerRows(), job.optimizer, rounded.job.optimizer,
                  &rounded.roundings);
    rounded.differences = FindDifferences(system, rounded.job);
    nearest.push_back(std::move(rounded));
  }
  return nearest;
}

}  // namespace oneflow::foreign
