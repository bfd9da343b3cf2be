// Degrees, schedule, sharding, recompute and precision of Megatron's flags.
#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

constexpr int64_t kMostBlocks = 100'000;

void Break(Facts* facts, std::string rule, std::string numbers, std::string hint,
           std::string theirs = "") {
  if (theirs.empty()) theirs = absl::StrCat(rule, " (", numbers, ")");
  facts->broken.push_back({.rule = std::move(rule),
                           .numbers = std::move(numbers),
                           .theirs = std::move(theirs),
                           .hint = std::move(hint)});
}

// Blocks of `slices` slices where the first and the last may have their own number; and where the
// embedding and the loss count as a block, which their slices then have less.
std::vector<int64_t> SplitLayers(int64_t layers, int64_t slices, bool counts_embedding,
                                 bool counts_loss, Facts* facts) {
  const int64_t units = layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  if (units % slices != 0) {
    Break(facts, "layers must be a multiple of pipe x virtual stages",
          absl::StrCat(units, " is not a multiple of ", slices),
          "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers, or "
          "--pipeline-model-parallel-layout");
    return {};
  }
  std::vector<int64_t> blocks(slices, units / slices);
  if (counts_embedding) --blocks.front();
  if (counts_loss) --blocks.back();
  return blocks;
}

struct VirtualStages {
  int64_t chunks = 1;
  bool is_said = false;
};

VirtualStages ReadChunks(Settings& settings, int64_t layers, int64_t pipe, Facts* facts) {
  const std::optional<int64_t> a_slice = settings.Int("num_layers_per_virtual_pipeline_stage");
  const std::optional<int64_t> a_rank = settings.Int("num_virtual_stages_per_pipeline_rank");
  const std::optional<int64_t> size = settings.Int("virtual_pipeline_model_parallel_size");
  if (a_rank) return {*a_rank, true};
  if (size) return {*size, true};
  if (!a_slice || layers == 0) return {};
  // The embedding and the loss may count as a layer.
  for (const char* key :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    if (settings.Bool(key).value_or(false)) ++layers;
  }
  if (*a_slice < 1 || layers % (pipe * *a_slice) != 0) {
    Break(facts, "layers must be a multiple of pipe x layers of a virtual stage",
          absl::StrCat(layers, " is not a multiple of ", pipe, " x ", *a_slice),
          "--num-layers-per-virtual-pipeline-stage N with another N");
    return {};
  }
  return {layers / pipe / *a_slice, true};
}

void ReadSchedule(Settings& settings, int64_t layers, Facts* facts) {
  const int64_t pipe = facts->degrees.pipe;
  ScheduleFacts& schedule = facts->schedule;
  const VirtualStages chunks = ReadChunks(settings, layers, pipe, facts);
  // Configuration classes have other names for the same.
  std::optional<int64_t> first = settings.Int("decoder_first_pipeline_num_layers");
  std::optional<int64_t> last = settings.Int("decoder_last_pipeline_num_layers");
  const auto other_first = settings.Int("num_layers_in_first_pipeline_stage");
  const auto other_last = settings.Int("num_layers_in_last_pipeline_stage");
  if (!first) first = other_first;
  if (!last) last = other_last;
  bool embedding = settings.Bool("account_for_embedding_in_pipeline_split").value_or(false);
  bool loss = settings.Bool("account_for_loss_in_pipeline_split").value_or(false);
  // DeepSpeed counts the layers whose class has such a name: both ends of a tied table.
  const std::string partition =
      absl::AsciiStrToLower(settings.Text("pp_partition_method").value_or(""));
  if (partition.find("embedding") != std::string::npos) embedding = loss = true;
  const nlohmann::json* layout_value = settings.Value("pipeline_model_parallel_layout");
  settings.Int("microbatch_group_size_per_virtual_pipeline_stage");
  settings.Int("microbatch_group_size_per_vp_stage");
  if (pipe == 1) {
    if (chunks.is_said && chunks.chunks > 1) {
      Break(facts, "virtual stages need pipe of 2 or more", "pipe is 1",
            "a pipe degree, or no virtual stages");
    }
    return;
  }
  schedule.chunks = std::max<int64_t>(1, chunks.chunks);
  if (layout_value != nullptr) {
    const std::string layout = layout_value->is_array()
                                   ? absl::StrJoin(*layout_value, "|",
                                                   [](std::string* out, const nlohmann::json& v) {
                                                     *out +=
                                                         v.is_string() ? v.get<std::string>() : "";
                                                   })
                                   : settings.Find("pipeline_model_parallel_layout")->ValueText();
    const absl::StatusOr<std::vector<int64_t>> blocks = ParseLayout(layout);
    if (!blocks.ok()) {
      settings.Refuse("pipeline_model_parallel_layout", std::string(blocks.status().message()));
      return;
    }
    schedule.stage_layers = *blocks;
    const auto slices = static_cast<int64_t>(blocks->size());
    const int64_t sum = std::accumulate(blocks->begin(), blocks->end(), int64_t{0});
    if (slices % pipe != 0) {
      Break(facts, "the layout's stages must be a multiple of pipe",
            absl::StrCat(slices, " is not a multiple of ", pipe), "another layout");
      schedule.stage_layers.clear();
      return;
    }
    if (layers > 0 && sum != layers) {
      Break(facts, "the layout must have all layers", absl::StrCat(sum, " of ", layers),
            "another layout");
    }
    schedule.chunks = slices / pipe;
  } else if (layers > 0 && (first || last)) {
    const int64_t ends = first.value_or(0) + last.value_or(0);
    const int64_t between = pipe - (first ? 1 : 0) - (last ? 1 : 0);
    if (ends > layers || (between == 0 ? ends != layers : (layers - ends) % between != 0)) {
      Break(facts, "layers between the first and the last stage must divide",
            absl::StrCat(layers, " - ", ends, " over ", between, " stages"),
            "other --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers");
      return;
    }
    std::vector<int64_t> stages(pipe, between > 0 ? (layers - ends) / between : 0);
    if (first) stages.front() = *first;
    if (last) stages.back() = *last;
    for (int64_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      for (const int64_t blocks : stages) {
        if (blocks % schedule.chunks != 0) {
          Break(facts, "layers of a stage must be a multiple of virtual stages",
                absl::StrCat(blocks, " is not a multiple of ", schedule.chunks),
                "another number of virtual stages");
          schedule.stage_layers.clear();
          return;
        }
        schedule.stage_layers.push_back(blocks / schedule.chunks);
      }
    }
  } else if (layers > 0) {
    schedule.stage_layers = SplitLayers(layers, pipe * schedule.chunks, embedding, loss, facts);
  }
  schedule.name = schedule.chunks > 1 ? "interleaved" : "1f1b";
}

void ReadSharding(Settings& settings, Facts* facts) {
  ShardingFacts& sharding = facts->sharding;
  const bool distributed = settings.Bool("use_distributed_optimizer").value_or(false);
  bool megatron_fsdp = settings.Bool("use_megatron_fsdp").value_or(false);
  megatron_fsdp = settings.Bool("use_custom_fsdp").value_or(megatron_fsdp);
  const bool torch_fsdp = settings.Bool("use_torch_fsdp2").value_or(false);
  const std::string strategy =
      settings.Text("data_parallel_sharding_strategy").value_or("no_shard");
  const int64_t instances = settings.Int("num_distributed_optimizer_instances").value_or(1);
  const bool keeps = settings.Bool("torch_fsdp2_no_reshard_after_forward").value_or(false);
  const int64_t zero = settings.Int("zero_stage").value_or(0);
  if (torch_fsdp || (megatron_fsdp && strategy == "optim_grads_params")) {
    sharding.what = "weights";
    sharding.gather = keeps ? "each micro-batch" : "each use";
    sharding.reduce = "each micro-batch";
  } else if (megatron_fsdp && strategy == "optim_grads") {
    sharding.what = "gradients";
    sharding.gather = "once a step";
    sharding.reduce = "each micro-batch";
  } else if (zero >= 2) {
    sharding.what = zero == 2 ? "gradients" : "weights";
    sharding.gather = zero == 2 ? "once a step" : "each use";
    sharding.reduce = "each micro-batch";
  } else if (distributed || zero == 1 || (megatron_fsdp && strategy == "optim")) {
    sharding.what = "states";
    sharding.gather = "once a step";
  } else {
    return;
  }
  sharding.replicas = std::max<int64_t>(1, instances);
  sharding.over = {"data"};
  if (facts->degrees.context > 1) sharding.over.emplace_back("context");
}

void ReadRecompute(Settings& settings, const MegatronForm& form, Facts* facts) {
  RecomputeFacts& recompute = facts->recompute;
  std::string granularity = settings.Text("recompute_granularity").value_or("");
  if (settings.Bool("recompute_activations").value_or(false)) granularity = "selective";
  std::string method = settings.Text("recompute_method").value_or("");
  std::optional<int64_t> count = settings.Int("recompute_num_layers");
  // Older names, of which the first has a method and a number of layers of its own.
  if (settings.Bool("checkpoint_activations").value_or(false)) {
    granularity = "full";
    if (method.empty()) method = "uniform";
  }
  settings.Bool("deepspeed_activation_checkpointing");
  const auto old_method = settings.Text("activations_checkpoint_method");
  const auto old_count = settings.Int("activations_checkpoint_num_layers");
  const auto older_count = settings.Int("checkpoint_num_layers");
  if (old_method) {
    granularity = "full";
    method = *old_method;
  }
  if (!count) count = old_count ? old_count : older_count;
  const nlohmann::json* modules = settings.Value("recompute_modules");
  std::vector<std::string> names;
  if (modules != nullptr) {
    std::string text = modules->is_string() ? modules->get<std::string>() : modules->dump();
    for (const auto word : absl::StrSplit(text, absl::ByAnyChar("[]\"', "), absl::SkipEmpty())) {
      names.emplace_back(word);
    }
  }
  recompute.gathers_again = true;
  if (granularity.empty() || granularity == "none" || granularity == "null") return;
  recompute.blocks = "all";
  if (granularity == "selective") {
    if (names.empty() || names == std::vector<std::string>{"core_attn"}) {
      recompute.what = "core of attention";
      recompute.here = "attention";
      return;
    }
    recompute.what = absl::StrJoin(names, ", ");
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    recompute.is_exact = false;
    recompute.here = has("mlp") || has("moe")             ? "full"
                     : has("layernorm") || has("moe_act") ? "selective"
                     : has("core_attn")                   ? "attention"
                                                          : "selective";
    return;
  }
  if (granularity != "full") {
    return settings.Refuse("recompute_granularity", "is not known", "write selective or full");
  }
  recompute.what = "block";
  recompute.here = "full";
  if (method.empty()) {
    Break(facts, "recompute of granularity full needs a method", "--recompute-method is missing",
          "--recompute-method uniform --recompute-num-layers 1");
  } else if (method == "uniform") {
    if (count && *count > 1) {
      recompute.what = absl::StrCat("units of ", *count, " blocks");
      recompute.is_exact = false;
    }
  } else if (method == "block") {
    const int64_t slices = facts->degrees.pipe * facts->schedule.chunks;
    const std::vector<int64_t>& blocks = facts->schedule.stage_layers;
    const int64_t most = blocks.empty() ? 0 : *std::max_element(blocks.begin(), blocks.end());
    if (count && (slices == 1 || most == 0 || *count < most)) {
      recompute.blocks = slices == 1 ? absl::StrCat("the first ", *count)
                                     : absl::StrCat("the first ", *count, " of each of ", slices,
                                                    " stages of ", most);
      recompute.here = absl::StrCat("full:", *count);
      if (*count == 0) recompute = {.gathers_again = recompute.gathers_again};
    }
  }
}

void ReadPrecision(Settings& settings, Facts* facts) {
  PrecisionFacts& precision = facts->precision;
  const bool fp16 = settings.Bool("fp16").value_or(false);
  const bool bf16 = settings.Bool("bf16").value_or(false);
  std::string fp8;
  for (const char* key : {"fp8_format", "fp8"}) {
    const Setting* setting = settings.Find(key);
    if (setting == nullptr) continue;
    const std::string text = absl::AsciiStrToLower(setting->ValueText());
    if (setting->value.is_null() || text == "false" || text == "null" || text == "none") {
      settings.Put(key, List::kDefault);
      continue;
    }
    fp8 = text.empty() || text == "true" ? "hybrid" : text;
    settings.Put(key, List::kNoEquivalent,
                 "products in FP8: here in bf16, which take up to twice the time; weights and "
                 "activations have the bytes of bf16");
  }
  if (bf16) {
    precision.compute = precision.here = "bf16";
  } else if (fp16) {
    precision.compute = "fp16, dynamic loss scale";
    precision.here = "bf16";
    settings.Put("fp16", List::kNoEquivalent,
                 "fp16 and its loss scaling: here bf16, of the same bytes and time");
  }
  if (!fp8.empty()) {
    const Setting* recipe = settings.Find("fp8_recipe");
    precision.compute =
        absl::StrCat("fp8 (", fp8, ", ", recipe == nullptr ? "delayed" : recipe->ValueText(),
                     " scaling) in products, bf16 elsewhere",
                     settings.Has("fp8_param_gather") ? "; weights gathered in fp8" : "");
    precision.here = "bf16";
  }
  const bool narrow = settings.Bool("grad_reduce_in_bf16").value_or(false);
  const std::optional<bool> wide = settings.Bool("accumulate_allreduce_grads_in_fp32");
  const std::optional<bool> wide_ddp = settings.Bool("grad_reduce_in_fp32");
  if (precision.here == "bf16") {
    precision.residual_f32 = settings.Bool("fp32_residual_connection").value_or(false);
  }
  precision.gradients_in_bf16 = narrow || (wide && !*wide) || (wide_ddp && !*wide_ddp);
  if (narrow) {
    settings.Put("grad_reduce_in_bf16", List::kNoEquivalent,
                 "gradients are kept and summed in bf16: here in f32, 2 bytes more a parameter "
                 "that a device holds");
  }
}

void ReadOffload(Settings& settings, int64_t layers, Facts* facts) {
  OffloadFacts& offload = facts->offload;
  if (settings.Bool("optimizer_cpu_offload").value_or(false)) {
    offload.states = true;
    offload.update = true;
    // Which the host's optimizer needs; of fewer bits are states by flags of their own.
    settings.Put("use_precision_aware_optimizer", List::kDefault);
    const double share = settings.Number("optimizer_offload_fraction").value_or(1);
    if (share < 1) {
      settings.Put("optimizer_offload_fraction", List::kNoEquivalent,
                   absl::StrCat("a share of ", share,
                                " of the states is on the host: here all, "
                                "12 bytes a parameter less on the device than theirs at 0"));
    }
  } else {
    settings.Number("optimizer_offload_fraction");
  }
  const std::optional<int64_t> blocks = settings.Int("cpu_offloading_num_layers");
  const bool is_on = settings.Bool("cpu_offloading").value_or(blocks.value_or(0) > 0);
  const bool activations = settings.Bool("cpu_offloading_activations").value_or(true);
  const bool weights = settings.Bool("cpu_offloading_weights").value_or(false);
  if (!is_on || blocks.value_or(0) < 1) return;
  offload.activations = activations;
  offload.weights = weights;
  if (layers > 0) {
    offload.activations_share =
        std::min(1.0, static_cast<double>(*blocks) / static_cast<double>(layers));
  }
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseLayout(const std::string& layout) {
  // Expanded: (X)*n and x*n repeat what is before them.
  size_t at = 0;
  const std::function<absl::StatusOr<std::string>(int)> expand =
      [&](int depth) -> absl::StatusOr<std::string> {
    std::string all;
    while (at < layout.size()) {
      const char c = layout[at];
      std::string unit;
      if (c == ')') {
        if (depth == 0) return absl::InvalidArgumentError("has a ) too many");
        break;
      }
      ++at;
      if (c == ',' || absl::ascii_isspace(c)) continue;
      if (c == '(') {
        if (depth > 20) return absl::InvalidArgumentError("is nested too deep");
        ASSIGN_OR_RETURN(unit, expand(depth + 1));
        if (at >= layout.size()) return absl::InvalidArgumentError("lacks a )");
        ++at;
      } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
        unit = c;
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("has a '", std::string(1, c), "', and E, t, m, L, |, ( and ) are known"));
      }
      int64_t times = 1;
      if (at < layout.size() && layout[at] == '*') {
        ++at;
        times = 0;
        if (at >= layout.size() || !absl::ascii_isdigit(layout[at])) {
          return absl::InvalidArgumentError("has a * without a number");
        }
        while (at < layout.size() && absl::ascii_isdigit(layout[at]) && times < kMostBlocks) {
          times = times * 10 + (layout[at++] - '0');
        }
      }
      if (times * static_cast<int64_t>(unit.size()) + static_cast<int64_t>(all.size()) >
          kMostBlocks) {
        return absl::InvalidArgumentError("has more layers than any model");
      }
      for (int64_t i = 0; i < times; ++i) all += unit;
    }
    return all;
  };
  ASSIGN_OR_RETURN(std::string stages, expand(0));
  // "(tt|)*7" ends with a separator.
  if (stages.ends_with('|')) stages.pop_back();
  std::vector<int64_t> blocks;
  for (const auto stage : absl::StrSplit(stages, '|')) {
    blocks.push_back(std::count(stage.begin(), stage.end(), 't'));
  }
  return blocks;
}

void ReadMegatronParallelism(Settings& settings, const MegatronForm& form, int64_t layers,
                             Facts* facts) {
  facts->sequence_parallel = settings.Bool("sequence_parallel").value_or(false);
  if (facts->degrees.tensor == 1 && facts->sequence_parallel) {
    facts->sequence_parallel = false;
    settings.Put("sequence_parallel", List::kDefault);
  }
  facts->batch.global = settings.Int("global_batch_size");
  if (const auto batch = facts->batch.global; batch && *batch < 1) {
    settings.Refuse("global_batch_size", "is no batch", "write sequences of a step");
  }
  facts->batch.micro = settings.Int("micro_batch_size");
  if (const auto micro = facts->batch.micro; micro && *micro < 1) {
    settings.Refuse("micro_batch_size", "is no batch", "write sequences of a micro-batch");
    facts->batch.micro.reset();
  }
  ReadSchedule(settings, layers, facts);
  ReadSharding(settings, facts);
  ReadRecompute(settings, form, facts);
  ReadPrecision(settings, facts);
  ReadOffload(settings, layers, facts);
}

}  // namespace oneflow::foreign
