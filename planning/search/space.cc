#include "planning/search/space.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/search/list_meshes.h"

namespace oneflow {
namespace {

struct ScheduleForm {
  std::string name;
  int chunks = 1;
};

// A search measures so many classes of blocks at most.
constexpr int kMostClasses = 8;

// More chunks make a bubble shorter that is below this part of a step already.
constexpr double kShortBubble = 0.01;

// Numbers of chunks that divide the blocks evenly, up to the first that makes the bubble short; 2,
// where that is possible at all, if none divides them.
std::vector<int> ListChunks(int blocks, int pipe, int64_t micro_batches,
                            const proto::Recipe& fixed) {
  if (fixed.has_stage_layers() && !fixed.has_chunks()) {
    const int all = fixed.stage_layers().layers_size();
    return all % pipe == 0 && all > pipe ? std::vector<int>{all / pipe} : std::vector<int>();
  }
  if (fixed.has_chunks()) {
    const bool fits = fixed.chunks() > 1 && int64_t{pipe} * fixed.chunks() <= blocks;
    return fits ? std::vector<int>{fixed.chunks()} : std::vector<int>();
  }
  std::vector<int> numbers;
  const auto is_short = [&](int chunks) {
    return pipe - 1 < kShortBubble * static_cast<double>(chunks * micro_batches);
  };
  if (is_short(1) && !fixed.has_schedule()) return {};
  for (int chunks = 2; pipe * chunks <= blocks; ++chunks) {
    if (!numbers.empty() && is_short(numbers.back())) break;
    if (blocks % (pipe * chunks) == 0) numbers.push_back(chunks);
  }
  if (numbers.empty() && pipe * 2 <= blocks) numbers.push_back(2);
  return numbers;
}

std::vector<ScheduleForm> ListSchedules(int blocks, int pipe, int64_t micro_batches,
                                        const proto::Recipe& fixed) {
  std::vector<std::string> names = {"1f1b"};
  if (pipe > 1) names = {"1f1b", "zero_bubble", "interleaved"};
  if (fixed.has_schedule()) {
    names = {fixed.schedule()};
    // Without stages all synchronous schedules do one micro-batch after the other.
    if (pipe == 1 && fixed.schedule() != "1f1b") names.clear();
  }
  std::vector<ScheduleForm> forms;
  for (const std::string& name : names) {
    const absl::StatusOr<Schedule> schedule = FindSchedule(name);
    if (!schedule.ok()) continue;
    if (schedule->chunks > 1) {
      for (const int chunks : ListChunks(blocks, pipe, micro_batches, fixed)) {
        forms.push_back({name, chunks});
      }
    } else if (fixed.chunks() <= 1) {
      forms.push_back({name, 1});
    }
  }
  if (fixed.has_stage_layers()) {
    std::erase_if(forms, [&](const ScheduleForm& form) {
      return pipe * form.chunks != fixed.stage_layers().layers_size();
    });
  }
  return forms;
}

proto::Shard ShardAs(const std::string& words) { return MakeRecipe("--shard=" + words).shard(); }

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
                                    const proto::Cluster& cluster, const proto::Recipe& fixed) {
  const bool splits = degrees.token_parts() > 1;
  const int inner = FindInnerData(cluster, degrees);
  std::vector<MeshForm> forms;
  if (!fixed.has_shard()) {
    std::vector<proto::Shard> shards = {ShardAs("none")};
    if (splits) {
      for (const char* words : {"states", "gradients", "weights"}) shards.push_back(ShardAs(words));
    }
    forms.push_back({MakeMesh(shape, degrees), shards});
    if (inner > 1) {
      forms.push_back({MakeMesh(shape, degrees, inner),
                       {ShardAs("states:data,gradients:data,weights:data.1")}});
    }
    return forms;
  }
  const proto::Shard& shard = fixed.shard();
  if (!NamesFactors(shard)) {
    if (splits || shard.states().empty()) forms.push_back({MakeMesh(shape, degrees), {shard}});
    return forms;
  }
  for (int part = 2; part < degrees.data; ++part) {
    if (degrees.data % part != 0 || (inner > 1 && part != inner)) continue;
    forms.push_back({MakeMesh(shape, degrees, part), {shard}});
  }
  return forms;
}

std::vector<proto::Offload> ListOffloads(const SearchSpec& spec) {
  if (spec.fixed.recipe.has_offload()) return {spec.fixed.recipe.offload()};
  std::vector<proto::Offload> offloads(1);
  if (spec.given.recipe.host_memory() > 0) offloads.emplace_back().set_states(true);
  return offloads;
}

std::vector<proto::Recipe> MakeGroups(const SearchSpec& spec, const ModelShape& shape,
                                      const std::vector<Degrees>& all) {
  const proto::Recipe& fixed = spec.fixed.recipe;
  const std::vector<proto::Offload> offloads = ListOffloads(spec);
  std::vector<proto::Recipe> groups;
  proto::Recipe group = MakeCandidate(fixed);
  for (const Degrees& degrees : all) {
    const std::vector<int64_t> micro_batches =
        ListMicroBatches(spec.given.recipe.batch(), degrees, spec.fixed, shape.sequence);
    // Positions may be split wherever that is possible: layouts are chosen with and without, by
    // what they take.
    group.set_sequence_parallel(fixed.has_sequence_parallel() ? fixed.sequence_parallel()
                                                              : degrees.tensor > 1);
    if (group.sequence_parallel() && degrees.tensor == 1) continue;  // nothing to split over
    for (const MeshForm& form : ListMeshForms(shape, degrees, spec.given.cluster, fixed)) {
      *group.mutable_mesh() = ToProto(form.mesh);
      group.set_keep_axis_order(form.mesh.axes.size() > 1);
      for (const int64_t m : micro_batches) {
        group.set_micro_batches(m);
        for (const ScheduleForm& schedule : ListSchedules(shape.blocks, degrees.pipe, m, fixed)) {
          group.set_schedule(schedule.name);
          group.set_chunks(schedule.chunks);
          for (const proto::Shard& shard : form.shards) {
            *group.mutable_shard() = shard;
            for (const proto::Offload& offload : offloads) {
              *group.mutable_offload() = offload;
              groups.push_back(group);
            }
          }
        }
      }
    }
  }
  return groups;
}

absl::Status CheckLayers(const ModelShape& shape, const proto::Recipe& fixed) {
  const auto& layers = fixed.stage_layers().layers();
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (!fixed.has_stage_layers() || sum == shape.blocks) return absl::OkStatus();
  return InputError("--fix=stage_layers=" + absl::StrJoin(layers, ","),
                    absl::StrCat("adds up to ", sum, " layers"),
                    absl::StrCat("the model has ", shape.blocks));
}

// Without degrees of tensor that span nodes, if others remain: what is exchanged in each block then
// crosses slow links.
void LeaveTensorInNodes(const SearchSpec& spec, std::vector<Degrees>* degrees) {
  const proto::Cluster& cluster = spec.given.cluster;
  const int64_t node = cluster.level().empty() ? 0 : cluster.level(0).size();
  if (node < 1 || spec.fixed.sizes.contains("tensor")) return;
  const auto spans = [&](const Degrees& d) { return d.tensor > node; };
  if (std::all_of(degrees->begin(), degrees->end(), spans)) return;
  std::erase_if(*degrees, spans);
}

// All plan groups; none where fixes exclude each other.
absl::StatusOr<std::vector<proto::Recipe>> TryGroups(const SearchSpec& spec,
                                                     const ModelShape& shape) {
  RETURN_IF_ERROR(CheckLayers(shape, spec.fixed.recipe));
  ASSIGN_OR_RETURN(std::vector<Degrees> degrees,
                   FindDegrees(shape, spec.fixed, spec.devices, spec.given.recipe.batch()));
  LeaveTensorInNodes(spec, &degrees);
  return MakeGroups(spec, shape, degrees);
}

// Names, of fixes that exclude each other, those without which something remains.
absl::Status Contradiction(const SearchSpec& spec, const ModelShape& shape) {
  std::vector<std::string> counts;
  for (const std::string& fix : ListFixes(spec.fixed)) {
    const std::string name = fix.substr(0, fix.find('='));
    SearchSpec less = spec;
    less.fixed = WithoutFix(spec.fixed, name);
    const absl::StatusOr<std::vector<proto::Recipe>> groups = TryGroups(less, shape);
    if (!groups.ok() || groups->empty()) continue;
    counts.push_back(absl::StrCat("without ", name, " there are ", groups->size()));
  }
  return InputError("--fix=" + ToString(spec.fixed),
                    absl::StrCat("no plan on ", spec.devices, " devices has all of it"),
                    counts.empty() ? "fix less" : absl::StrJoin(counts, ", ") + " plan groups");
}

}  // namespace

absl::Status CheckBlocks(const GraphSource& source) {
  const std::string where = source.file.empty() ? "the graph" : source.file;
  const int blocks = FindModelShape(source.graph).blocks;
  const BlockClasses classes = FindBlockClasses(source.graph);
  if (blocks == 0 || std::ssize(classes.class_of) != blocks) {
    return InputError(where, "has no blocks that stages could divide, numbered from 0 on",
                      "`oneflow model` writes graphs that have them");
  }
  if (classes.size() <= kMostClasses) return absl::OkStatus();
  return InputError(
      where,
      absl::StrCat("has blocks of ", classes.size(),
                   " classes: a search measures short models of each, of at most ", kMostClasses),
      "compile it with flags of your own");
}

absl::StatusOr<std::vector<proto::Recipe>> ListGroups(const SearchSpec& spec) {
  const int64_t batch = spec.given.recipe.batch();
  if (spec.devices < 1 || spec.devices > kMaxDevices) {
    return InputError(absl::StrCat("--devices=", spec.devices), "is no number of devices",
                      absl::StrCat("use 1 to ", kMaxDevices));
  }
  if (batch < 1) {
    return InputError(absl::StrCat("--batch=", batch), "a step needs at least one sequence",
                      "use --batch=1 or more");
  }
  RETURN_IF_ERROR(CheckBlocks(spec.source));
  const ModelShape shape = FindModelShape(spec.source.graph);
  ASSIGN_OR_RETURN(std::vector<proto::Recipe> groups, TryGroups(spec, shape));
  if (groups.empty()) return Contradiction(spec, shape);
  return groups;
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
      "above the smallest of 32,768 tokens or more on a device, gpipe and schedules whose weights "
      "lag, extra micro-batches in flight, when weights are gathered and gradients reduced, "
      "prefetch",
      host ? ", weights and activations in the host's memory" : ", offload (without --host_memory)",
      "; what else is given stays as it is\n");
  return text;
}

}  // namespace oneflow
