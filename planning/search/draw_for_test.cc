#include "planning/search/draw_for_test.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/model.h"
#include "planning/search/blocks_by_slice.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

// Of 64 processes on hosts of 8, as `oneflow calibrate` finds them.
constexpr char kCpu[] = R"(
  name: "cpu"
  device {
    kernel_threads: 4 peak_flops: 2e11 peak_flops_bf16: 1.5e11
    memory_bandwidth: 3e10 read_bandwidth: 2.5e10 firing_seconds: 2e-6
  }
  level { name: "process" size: 8 latency: 1e-6 sleeping_latency: 2e-5 bandwidth: 1e10 }
  level { name: "host" latency: 5e-5 bandwidth: 3e9 }
)";

proto::Graph DrawGpt(int64_t layers, int64_t hidden, int64_t sequence, Dice* dice) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(layers), config.set_hidden(hidden), config.set_sequence(sequence);
  config.set_heads(hidden / dice->One<int64_t>({64, 128}));
  config.set_vocab(dice->One<int64_t>({1024, 32000, 50257, 51200}));
  config.set_bias(dice->Chance(.5));
  config.set_tied(dice->Chance(.5));
  if (dice->Chance(.2)) config.set_dropout(.1);
  if (dice->Chance(.15)) config.set_attention("unfused");
  return BuildModel(config);
}

// Some blocks with a window, or without experts.
proto::BlockPattern DrawPattern(const proto::Model& config, Dice* dice) {
  proto::BlockPattern blocks;
  proto::Model& numbers = *blocks.add_classes()->mutable_numbers();
  blocks.add_classes();
  if (config.experts() > 0) {
    numbers.set_experts(0);
    numbers.set_inner(config.hidden() * dice->One<int64_t>({2, 4}));
  } else {
    numbers.set_window(config.sequence() / dice->One<int64_t>({2, 4}));
  }
  const bool ahead = dice->Chance(.3);
  proto::BlockPattern::Run& first = *blocks.add_run();
  first.set_count(1 + dice->Below(ahead ? std::max<int64_t>(1, config.layers() / 6) : 5));
  proto::BlockPattern::Run& others = *blocks.add_run();
  others.set_index(1);
  others.set_count(ahead ? 0 : 1);
  return blocks;
}

proto::Graph DrawLlama(int64_t layers, int64_t hidden, int64_t sequence, bool mixture,
                       bool patterned, Dice* dice) {
  proto::Model config = MakeModel(absl::StrCat("family: 'llama' head_dim: 64 hidden: ", hidden));
  config.set_layers(layers), config.set_sequence(sequence);
  config.set_head_dim(dice->One<int64_t>({64, 128}));
  config.set_heads(hidden / config.head_dim());
  config.set_groups(dice->Chance(.5) ? config.heads() : std::min<int64_t>(config.heads(), 2));
  config.set_vocab(dice->One<int64_t>({1024, 32000, 128256}));
  config.set_tied(dice->Chance(.3));
  config.set_qk_norm(dice->Chance(.2));
  if (mixture) {
    config.set_experts(dice->One<int64_t>({4, 8}));
    config.set_inner(hidden);
    if (dice->Chance(.5)) config.set_slots(1.25), config.set_slot_groups(config.experts());
    if (dice->Chance(.3)) config.set_shared_inner(hidden);
  }
  if (patterned) *config.mutable_blocks() = DrawPattern(config, dice);
  return BuildModel(config);
}

// Blocks of a slice with each policy, in words; more than the slice has takes those that there are.
std::string DrawRecompute(int most, Dice* dice) {
  const auto count = [&] { return 1 + dice->Below(most); };
  switch (dice->Below(8)) {
    case 0:
    case 1: return "none";
    case 2: return "attention";
    case 3: return "selective";
    case 4: return "full";
    case 5:
      return absl::StrCat("full:", count(), ",",
                          dice->One<std::string>({"attention", "selective"}));
    case 6:
      return absl::StrCat(dice->One<std::string>({"attention", "selective", "full"}), ":", count());
    default: return absl::StrCat("selective:", count(), ",full:", count());
  }
}

}  // namespace

proto::Cluster ReadClusterForTest(const std::string& name) {
  proto::Cluster cluster;
  const std::string path = "examples/clusters/" + name + ".textproto";
  const std::string text = name == "cpu" ? kCpu : *ReadFile(path, "");
  CHECK(ParseText(text, path, "cluster", &cluster).ok()) << path;
  return cluster;
}

SearchSpec SpecForTest(const std::string& model, const std::string& cluster,
                       const std::string& flags, int64_t devices, int64_t memory) {
  SearchSpec spec{.source = {BuildModel(MakeModel("family: 'gpt' " + model)), "gpt.textproto", {}},
                  .devices = devices};
  spec.given.cluster = ReadClusterForTest(cluster);
  SetUsableBytes(memory, spec.given.cluster.mutable_device());
  spec.given.recipe = MakeRecipe("--device=cuda --precision=bf16 " + flags);
  return spec;
}

SearchSpec DrawSpec(const DrawnRange& range, Dice* dice) {
  SearchSpec spec;
  const std::string cluster =
      dice->One<std::string>({"a100", "a100", "h100", "h100", "v100", "cpu"});
  const bool cpu = cluster == "cpu";
  const int64_t layers =
      range.least_blocks + dice->Below(range.most_blocks - range.least_blocks + 1);
  const int64_t hidden =
      cpu ? dice->One<int64_t>({256, 512}) : dice->One<int64_t>({256, 512, 1024, 1536, 2048});
  const int64_t sequence = cpu ? 512 : dice->One<int64_t>({512, 1024, 2048, 4096});
  const int64_t kind = range.patterned ? 1 + dice->Below(2) : dice->Below(3);
  spec.source = {kind == 0 ? DrawGpt(layers, hidden, sequence, dice)
                           : DrawLlama(layers, hidden, sequence, kind == 2, range.patterned, dice),
                 "",
                 {}};
  PlanRequest& given = spec.given;
  if (kind == 2) given.imbalance = kUsualImbalance;  // as the command line does
  given.cluster = ReadClusterForTest(cluster);
  given.cluster.set_name(cluster);
  given.cluster.mutable_device()->clear_memory_bytes();
  given.recipe.set_device(cpu ? proto::CPU : proto::CUDA);
  given.recipe.set_batch(dice->One<int64_t>({8, 16, 18, 24, 32, 50, 64, 72, 96, 100, 128}));
  if (!dice->Chance(cpu ? .5 : .15)) given.recipe.set_precision(proto::BF16);
  if (dice->Chance(.3)) given.recipe.set_loss_pieces(-1);
  proto::Optimizer& optimizer = given.optimizer;
  optimizer.set_learning_rate(1e-3), optimizer.set_beta1(.9), optimizer.set_beta2(.95);
  optimizer.set_epsilon(1e-8);
  if (dice->Chance(.2)) {
    given.recipe.set_global_norm(false);
  } else {
    optimizer.set_clip(1);
  }
  if (!cpu && dice->Chance(.15)) given.recipe.set_host_memory(int64_t{1} << 40);
  std::vector<int64_t> devices = range.devices;
  if (cpu) std::erase_if(devices, [](int64_t n) { return n > 8; });
  spec.devices = dice->One(devices);
  return spec;
}

proto::Recipe DrawCandidate(const SearchSpec& spec, const std::vector<proto::Recipe>& groups,
                            Dice* dice) {
  proto::Recipe candidate = dice->One(groups);
  const int stages = FindMesh(candidate).stages();
  const std::vector<int> slices = SlicesForTest(spec, candidate);
  if (candidate.chunks() == 1 && stages > 1 && dice->Chance(.25)) {
    std::vector<int> layers = slices;
    const int64_t from = dice->Below(stages), to = dice->Below(stages);
    if (layers[from] > 1) --layers[from], ++layers[to];
    candidate.mutable_stage_layers()->mutable_layers()->Assign(layers.begin(), layers.end());
  }
  const std::string words = DrawRecompute(*std::max_element(slices.begin(), slices.end()), dice);
  *candidate.mutable_recompute() = MakeRecipe("--recompute=" + words).recompute();
  if (GathersActivations(candidate) && dice->Chance(.4)) {
    candidate.mutable_recompute()->set_gather(true);
  }
  return candidate;
}

std::string Describe(const SearchSpec& spec, const proto::Recipe& candidate) {
  const PlanRequest& given = spec.given;
  const ModelShape shape = FindModelShape(spec.source.graph);
  return absl::StrCat(spec.source.graph.name(), " of ", shape.blocks, " blocks (",
                      FindBlockClasses(spec.source.graph).PatternText(), "), sequence ",
                      shape.sequence, ", batch ", given.recipe.batch(),
                      given.recipe.precision() == proto::BF16 ? "" : ", f32", " on ",
                      given.cluster.name(), ": ", CandidateFlags(candidate));
}

std::vector<int> SlicesForTest(const SearchSpec& spec, const proto::Recipe& candidate) {
  const absl::StatusOr<std::vector<int>> slices =
      BlocksBySlice(spec.source, CandidateRequest(spec.given, candidate));
  return slices.ok() ? *slices : std::vector<int>();
}

std::vector<ClassCounts> ClassesForTest(const SearchSpec& spec, const std::vector<int>& slices) {
  return CountClasses(FindBlockClasses(spec.source.graph).class_of, slices);
}

double DraftedStep::Most() const { return *std::max_element(bytes.begin(), bytes.end()); }

absl::StatusOr<DraftedStep> DraftStep(const SearchSpec& spec, const proto::Recipe& candidate) {
  const PlanRequest options = CandidateRequest(spec.given, candidate);
  ASSIGN_OR_RETURN(const proto::Plan plan, DraftPlan(spec.source, options));
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateProved(options.cluster, plan, "train", /*steps=*/2));
  DraftedStep drafted{.seconds = run.StepSeconds()};
  for (int s = 0; s < FindMesh(candidate).stages(); ++s) {
    drafted.bytes.push_back(static_cast<double>(plan.facts().lower_bound_bytes(s)));
  }
  return drafted;
}

}  // namespace oneflow
