#include "planning/search/space.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/search/list_meshes.h"

namespace oneflow {
namespace {

struct ScheduleForm {
  std::string name;
  int chunks = 1;
  int64_t extra = 0;
};

// More chunks make a bubble shorter that is below this part of a step already.
constexpr double kShortBubble = 0.01;

// Numbers of chunks that divide the blocks evenly, up to the first that makes the bubble short; 2,
// where that is possible at all, if none divides them.
std::vector<int> ListChunks(int blocks, int pipe, int64_t micro_batches, const Fixes& fixed) {
  if (fixed.stage_layers && !fixed.chunks) {
    const int all = static_cast<int>(fixed.stage_layers->size());
    return all % pipe == 0 && all > pipe ? std::vector<int>{all / pipe} : std::vector<int>();
  }
  if (fixed.chunks) {
    const bool fits = *fixed.chunks > 1 && int64_t{pipe} * *fixed.chunks <= blocks;
    return fits ? std::vector<int>{*fixed.chunks} : std::vector<int>();
  }
  std::vector<int> numbers;
  const auto is_short = [&](int chunks) {
    return pipe - 1 < kShortBubble * static_cast<double>(chunks * micro_batches);
  };
  if (is_short(1) && !fixed.schedule) return {};
  for (int chunks = 2; pipe * chunks <= blocks; ++chunks) {
    if (!numbers.empty() && is_short(numbers.back())) break;
    if (blocks % (pipe * chunks) == 0) numbers.push_back(chunks);
  }
  if (numbers.empty() && pipe * 2 <= blocks) numbers.push_back(2);
  return numbers;
}

std::vector<ScheduleForm> ListSchedules(int blocks, int pipe, int64_t micro_batches,
                                        const Fixes& fixed) {
  std::vector<std::string> names = {"1f1b"};
  if (pipe > 1) names = {"1f1b", "zero_bubble", "interleaved"};
  if (fixed.schedule) {
    // Without stages all synchronous schedules do one micro-batch after the other.
    names = pipe > 1 || *fixed.schedule == "1f1b" ? std::vector<std::string>{*fixed.schedule}
                                                  : std::vector<std::string>();
  }
  std::vector<ScheduleForm> forms;
  const int64_t extra = fixed.extra_in_flight.value_or(0);
  for (const std::string& name : names) {
    const absl::StatusOr<Schedule> schedule = FindSchedule(name);
    if (!schedule.ok()) continue;
    if (schedule->chunks > 1) {
      for (const int chunks : ListChunks(blocks, pipe, micro_batches, fixed)) {
        forms.push_back({name, chunks, extra});
      }
    } else if (fixed.chunks.value_or(1) == 1) {
      forms.push_back({name, 1, extra});
    }
  }
  if (fixed.stage_layers) {
    std::erase_if(forms, [&](const ScheduleForm& form) {
      return static_cast<size_t>(pipe) * form.chunks != fixed.stage_layers->size();
    });
  }
  return forms;
}

proto::Shard ShardInNodes() {
  proto::Shard shard = RecipeOf("--shard=weights").shard();
  shard.set_weights(0, "data.1");
  return shard;
}

bool NamesFactors(const proto::Shard& shard) {
  const auto has = [](const auto& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [](const std::string& axis) { return axis.starts_with("data."); });
  };
  return has(shard.states()) || has(shard.gradients()) || has(shard.weights());
}

// A mesh, and what may be split on it.
struct MeshForm {
  Mesh mesh;
  std::vector<proto::Shard> shards;
};

// The devices of a node that are left for data, where data axes span nodes; 1: no such factor.
int FindInnerData(const proto::Cluster& cluster, const Degrees& degrees) {
  if (cluster.level().empty()) return 1;
  const int64_t node = cluster.level(0).size();
  const int64_t others = int64_t{degrees.tensor} * degrees.context * degrees.expert;
  if (node < 2 || node % others != 0) return 1;
  const int64_t inner = node / others;
  const bool factor = inner > 1 && inner < degrees.data && degrees.data % inner == 0;
  return factor ? static_cast<int>(inner) : 1;
}

std::vector<MeshForm> ListMeshForms(const ModelShape& shape, const Degrees& degrees,
                                    const proto::Cluster& cluster,
                                    const std::optional<proto::Shard>& fixed) {
  const bool splits = degrees.token_parts() > 1;
  const int inner = FindInnerData(cluster, degrees);
  std::vector<MeshForm> forms;
  if (!fixed) {
    std::vector<proto::Shard> shards = {proto::Shard()};
    if (splits) shards = {proto::Shard(), RecipeOf("--shard=states").shard(), RecipeOf("--shard=gradients").shard(), RecipeOf("--shard=weights").shard()};
    forms.push_back({MakeMesh(shape, degrees), shards});
    if (inner > 1) forms.push_back({MakeMesh(shape, degrees, inner), {ShardInNodes()}});
    return forms;
  }
  if (!NamesFactors(*fixed)) {
    if (splits || fixed->states().empty()) forms.push_back({MakeMesh(shape, degrees), {*fixed}});
    return forms;
  }
  for (int part = 2; part < degrees.data; ++part) {
    if (degrees.data % part != 0 || (inner > 1 && part != inner)) continue;
    forms.push_back({MakeMesh(shape, degrees, part), {*fixed}});
  }
  return forms;
}

// Positions may be split wherever that is possible: layouts are chosen with and without, by what
// they take.
bool SplitsPositions(int tensor, const Fixes& fixed) {
  return fixed.sequence_parallel.value_or(tensor > 1);
}

absl::StatusOr<std::vector<proto::Offload>> ListOffloads(const SearchSpec& spec) {
  std::vector<std::string> words = {"none"};
  if (spec.given.recipe.host_memory() > 0) words = {"none", "states"};
  if (spec.fixed.offload) words = {*spec.fixed.offload};
  std::vector<proto::Offload> offloads;
  for (const std::string& word : words) {
    proto::Recipe recipe;
    RETURN_IF_ERROR(SetField(*FindRow(RecipeRows(), "offload"), word, &recipe, "--fix="));
    offloads.push_back(recipe.offload());
  }
  return offloads;
}

std::vector<PlanFamily> MakeFamilies(const SearchSpec& spec, const ModelShape& shape,
                                     const std::vector<Degrees>& all,
                                     const std::optional<proto::Shard>& shard,
                                     const std::vector<proto::Offload>& offloads) {
  std::vector<PlanFamily> families;
  for (const Degrees& degrees : all) {
    const std::vector<int64_t> micro_batches =
        ListMicroBatches(spec.given.recipe.batch(), degrees, spec.fixed, shape.sequence);
    const bool split = SplitsPositions(degrees.tensor, spec.fixed);
    if (split && degrees.tensor == 1) continue;  // fixed, and there is nothing to split over
    for (const MeshForm& form : ListMeshForms(shape, degrees, spec.given.cluster, shard)) {
      for (const int64_t m : micro_batches) {
        for (const ScheduleForm& schedule :
             ListSchedules(shape.blocks, degrees.pipe, m, spec.fixed)) {
          for (const proto::Shard& sharding : form.shards) {
            for (const proto::Offload& offload : offloads) {
              families.push_back({form.mesh, m, schedule.name, schedule.chunks, schedule.extra,
                                  split, sharding, offload});
            }
          }
        }
      }
    }
  }
  return families;
}

absl::Status CheckLayers(const ModelShape& shape, const Fixes& fixed) {
  if (!fixed.stage_layers) return absl::OkStatus();
  int64_t sum = 0;
  for (const int layers : *fixed.stage_layers) sum += layers;
  if (sum == shape.blocks) return absl::OkStatus();
  return InputError("--fix=stage_layers=" + absl::StrJoin(*fixed.stage_layers, ","),
                    absl::StrCat("adds up to ", sum, " layers"),
                    absl::StrCat("the model has ", shape.blocks));
}

// Without degrees of tensor that span nodes, if others remain: what is exchanged in each block then
// crosses slow links.
void LeaveTensorInNodes(const SearchSpec& spec, std::vector<Degrees>* degrees) {
  const proto::Cluster& cluster = spec.given.cluster;
  const int64_t node = cluster.level().empty() ? 0 : cluster.level(0).size();
  if (node < 1 || spec.fixed.degrees.contains("tensor")) return;
  const auto spans = [&](const Degrees& d) { return d.tensor > node; };
  if (std::all_of(degrees->begin(), degrees->end(), spans)) return;
  std::erase_if(*degrees, spans);
}

// All families; none where fixes exclude each other.
absl::StatusOr<std::vector<PlanFamily>> TryFamilies(const SearchSpec& spec,
                                                    const ModelShape& shape) {
  RETURN_IF_ERROR(CheckLayers(shape, spec.fixed));
  ASSIGN_OR_RETURN(std::vector<Degrees> degrees,
                   FindDegrees(shape, spec.fixed, spec.devices, spec.given.recipe.batch()));
  LeaveTensorInNodes(spec, &degrees);
  std::optional<proto::Shard> shard;
  if (spec.fixed.shard) {
    proto::Recipe recipe;
    RETURN_IF_ERROR(SetField(*FindRow(RecipeRows(), "shard"), *spec.fixed.shard, &recipe, "--fix="));
    shard = recipe.shard();
  }
  ASSIGN_OR_RETURN(const std::vector<proto::Offload> offloads, ListOffloads(spec));
  return MakeFamilies(spec, shape, degrees, shard, offloads);
}

// Of fixes that exclude each other, those without which something remains.
absl::Status Contradiction(const SearchSpec& spec, const ModelShape& shape) {
  std::vector<std::string> counts;
  for (const std::string& fix : ListFixes(spec.fixed)) {
    const std::string name = fix.substr(0, fix.find('='));
    SearchSpec less = spec;
    less.fixed = WithoutFix(spec.fixed, name);
    const absl::StatusOr<std::vector<PlanFamily>> families = TryFamilies(less, shape);
    if (!families.ok() || families->empty()) continue;
    counts.push_back(absl::StrCat("without ", name, " there are ", families->size()));
  }
  return InputError("--fix=" + ToString(spec.fixed),
                    absl::StrCat("no plan on ", spec.devices, " devices has all of it"),
                    counts.empty() ? "fix less" : absl::StrJoin(counts, ", ") + " families");
}

}  // namespace

absl::StatusOr<std::vector<PlanFamily>> ListFamilies(const SearchSpec& spec) {
  const int64_t batch = spec.given.recipe.batch();
  if (spec.devices < 1 || spec.devices > kMaxDevices) {
    return InputError(absl::StrCat("--devices=", spec.devices), "is no number of devices",
                      absl::StrCat("use 1 to ", kMaxDevices));
  }
  if (batch < 1) {
    return InputError(absl::StrCat("--batch=", batch), "a step needs at least one sequence",
                      "use --batch=1 or more");
  }
  const ModelShape shape = FindModelShape(spec.source.graph);
  if (shape.blocks == 0) {
    return InputError(spec.source.file.empty() ? "the graph" : spec.source.file,
                      "has no blocks that stages could divide, numbered from 0 on",
                      "`oneflow model` writes graphs that have them");
  }
  ASSIGN_OR_RETURN(std::vector<PlanFamily> families, TryFamilies(spec, shape));
  if (families.empty()) return Contradiction(spec, shape);
  return families;
}

std::string DescribeSpace(const SearchSpec& spec) {
  const bool host = spec.given.recipe.host_memory() > 0;
  std::string text =
      "searched: degrees of pipe, data, expert, context and tensor, micro-batches, schedule (1f1b, "
      "zero_bubble, interleaved), chunks, recompute of each block, layers of each stage, shard; "
      "layouts with positions split over tensor or not, as takes less";
  absl::StrAppend(&text, host ? ", offload of states" : "", "\n");
  if (const std::string fixed = ToString(spec.fixed); !fixed.empty()) {
    absl::StrAppend(&text, "fixed: ", fixed, "\n");
  }
  absl::StrAppend(
      &text,
      "not searched: tensor across nodes, context of parts below 4,096 positions, micro-batches "
      "whose "
      "sequences on a device are no power of two, or of several sequences above 32,768 tokens, "
      "gpipe and schedules whose weights lag, "
      "extra "
      "micro-batches in flight, "
      "micro-batches of unequal data parts, when weights are gathered and gradients reduced, "
      "prefetch",
      host ? ", weights and activations in the host's memory" : ", offload (without --host_memory)",
      "; what else is given stays as it is\n");
  return text;
}

}  // namespace oneflow
