// FSDP, degrees and Megatron-LM as accelerate says them.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/accelerate.h"
#include "tools/foreign/read/ds_config.h"

namespace oneflow::foreign {
namespace {

constexpr const char* kFsdpStrategies[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                           "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};

std::string AccUpper(std::string_view text) { return absl::AsciiStrToUpper(ToAbsl(text)); }

// A strategy by name or by number; adds a broken rule for another value.
std::string FsdpStrategy(const std::string& text, const std::string& where, Facts* facts) {
  int64_t number = 0;
  const std::string upper = AccUpper(text);
  if (absl::SimpleAtoi(text, &number) && number >= 1 && number <= 5) {
    return kFsdpStrategies[number - 1];
  }
  for (const char* strategy : kFsdpStrategies) {
    if (upper == strategy) return upper;
  }
  facts->broken.push_back(
      {.rule = "the sharding strategy is one that FSDP has",
       .numbers = text,
       .theirs = absl::StrCat("KeyError: '", upper, "' in ShardingStrategy"),
       .hint = "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2",
       .where = where});
  return "FULL_SHARD";
}

// True or false; of version 2 nothing else is taken.
bool FsdpReshard(const std::string& text, const std::string& where, Facts* facts) {
  const std::string upper = AccUpper(text);
  for (const char* word : {"TRUE", "YES", "1", "ON", "Y", "T"}) {
    if (upper == word) return true;
  }
  for (const char* word : {"FALSE", "NO", "0", "OFF", "N", "F"}) {
    if (upper == word) return false;
  }
  facts->broken.push_back({.rule = "reshard_after_forward of FSDP 2 is true or false",
                           .numbers = text,
                           .theirs = absl::StrCat("invalid truth value ", text),
                           .hint = upper == "SHARD_GRAD_OP" ? "false" : "true",
                           .where = where});
  return upper != "SHARD_GRAD_OP";
}

// Options of --fsdp: "full_shard auto_wrap offload".
void AddFsdpWord(const std::string& word, FsdpChoice* choice, Facts* facts,
                 const std::string& where) {
  if (word == "offload") {
    choice->offload = true;
  } else if (word == "auto_wrap" || word == "true" || word == "True") {
  } else {
    choice->strategy = FsdpStrategy(word, where, facts);
    choice->reshard = choice->strategy == "FULL_SHARD" || choice->strategy == "HYBRID_SHARD";
  }
}

}  // namespace

FsdpChoice ReadAccelerateFsdp(Settings* settings, Facts* facts) {
  FsdpChoice choice;
  choice.version = settings->Int("fsdp_version").value_or(1);
  const std::optional<std::string> strategy = settings->Text("fsdp_sharding_strategy");
  const std::optional<std::string> reshard = settings->Text("fsdp_reshard_after_forward");
  if (choice.version == 2) {
    if (reshard) {
      choice.reshard = FsdpReshard(*reshard, settings->Where("fsdp_reshard_after_forward"), facts);
    }
    if (strategy) {
      settings->Put("fsdp_sharding_strategy", List::kNoEffect,
                    "of version 1: version 2 has fsdp_reshard_after_forward");
    }
  } else if (strategy) {
    choice.strategy = FsdpStrategy(*strategy, settings->Where("fsdp_sharding_strategy"), facts);
  } else if (reshard && AccUpper(*reshard) != "TRUE") {
    choice.strategy = FsdpStrategy(*reshard, settings->Where("fsdp_reshard_after_forward"), facts);
  }
  choice.offload = settings->Bool("fsdp_offload_params").value_or(false) ||
                   settings->Bool("fsdp_cpu_offload").value_or(false);
  choice.checkpointing = settings->Bool("fsdp_activation_checkpointing").value_or(false);
  const bool loads = settings->Bool("fsdp_cpu_ram_efficient_loading").value_or(true);
  settings->Put("fsdp_cpu_ram_efficient_loading", List::kNoEffect);
  const bool sends = settings->Bool("fsdp_sync_module_states").value_or(true);
  settings->Put("fsdp_sync_module_states", List::kNoEffect);
  if (loads && !sends) {
    facts->broken.push_back(
        {.rule = "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states",
         .numbers = "true with false",
         .theirs = "When using `--fsdp_cpu_ram_efficient_loading` set `--fsdp_sync_module_states` "
                   "to `True`",
         .hint = "fsdp_sync_module_states: true",
         .where = settings->Where("fsdp_sync_module_states")});
  }
  return choice;
}

FsdpChoice ReadTrainerFsdp(const HfSources& found, Settings* words, Settings* file, Facts* facts) {
  FsdpChoice choice;
  const Setting* said = words->Find("fsdp");
  const std::string where = words->Where("fsdp");
  const bool is_bare = said != nullptr && (said->is_switch || said->value.is_boolean());
  words->Value("fsdp");
  words->Value("fsdp_config");
  // Keys of the file, or of an object in a file of words, without "fsdp_".
  Settings& options = *file;
  const auto add = [&](Setting setting, std::string key) {
    setting.key = key.starts_with("fsdp_") ? key.substr(5) : key;
    options.Add(std::move(setting));
  };
  if (found.fsdp) {
    for (const Setting& setting : FlattenSettings(*found.fsdp)) add(setting, setting.key);
  }
  std::vector<Setting> inside;
  for (const Setting& setting : words->all()) {
    if (setting.key.starts_with("fsdp_config.")) inside.push_back(setting);
  }
  for (const Setting& setting : inside) {
    add(setting, setting.key.substr(12));
  }
  // transformers 5 has version 2 by default, and --fsdp as a switch.
  choice.version = options.Int("version").value_or(is_bare ? 2 : 1);
  if (said != nullptr && said->value.is_array()) {
    for (const nlohmann::json& word : said->value) {
      if (word.is_string()) AddFsdpWord(word.get<std::string>(), &choice, facts, where);
    }
  } else if (said != nullptr && !is_bare) {
    for (const auto word : absl::StrSplit(said->ValueText(), ' ', absl::SkipEmpty())) {
      AddFsdpWord(std::string(word), &choice, facts, where);
    }
  }
  if (const auto reshard = options.Text("reshard_after_forward")) {
    if (choice.version == 2) {
      choice.reshard = FsdpReshard(*reshard, options.Where("reshard_after_forward"), facts);
    } else {
      choice.strategy = FsdpStrategy(*reshard, options.Where("reshard_after_forward"), facts);
    }
  }
  choice.offload = choice.offload || options.Bool("cpu_offload").value_or(false) ||
                   options.Bool("offload_params").value_or(false);
  choice.checkpointing = options.Bool("activation_checkpointing").value_or(false);
  static constexpr ListedKeys kFsdpKeys[] = {
      {List::kNoEffect,
       "cpu_ram_efficient_loading sync_module_states use_orig_params state_dict_type xla "
       "xla_fsdp_v2 xla_fsdp_settings xla_fsdp_grad_ckpt limit_all_gathers xla_fsdp_settings.*"},
      {List::kDefault, "transformer_layer_cls_to_wrap forward_prefetch"},
      {List::kNoEquivalent, "auto_wrap_policy", "units of FSDP other than blocks",
       "TRANSFORMER_BASED_WRAP"},
      {List::kNoEquivalent, "min_num_params", "units of FSDP by their size; here by use"},
      {List::kNoEquivalent, "backward_prefetch",
       "when the next unit is gathered in the backward; here --prefetch",
       "backward_pre no_prefetch"},
  };
  options.Sort(kFsdpKeys);
  // An object in a file of words: each of its keys in the list of the option.
  for (const Setting& setting : inside) {
    std::string key = setting.key.substr(12);
    if (key.starts_with("fsdp_")) key = key.substr(5);
    if (const Setting* option = options.Find(key); option != nullptr) {
      words->Put(setting.key, option->list, option->note);
    }
  }
  return choice;
}

void ApplyFsdp(const FsdpChoice& choice, Facts* facts) {
  ShardingFacts& sharding = facts->sharding;
  sharding = {};
  const bool shards = choice.version == 2 || choice.strategy != "NO_SHARD";
  if (shards) {
    sharding.what = "weights";
    sharding.over = {"data"};
    if (facts->degrees.context > 1) sharding.over.push_back("context");
    sharding.replicas = choice.replicas;
    if (choice.version == 2) {
      sharding.gather = choice.reshard ? "each use" : "each micro-batch";
    } else {
      // Version 1 keeps what it gathered until gradients are reduced.
      const bool reshards = choice.strategy == "FULL_SHARD" || choice.strategy == "HYBRID_SHARD";
      sharding.gather = reshards ? "each use" : "once a step";
      const std::optional<int64_t> data = DataDegree(*facts);
      if (choice.strategy.starts_with("HYBRID") && choice.replicas == 1) {
        if (facts->devices_a_node > 0) {
          sharding.ways = facts->devices_a_node;
          if (data && *data % *sharding.ways == 0) sharding.replicas = *data / *sharding.ways;
        } else {
          facts->questions.push_back({"how many GPUs a node has: HYBRID_SHARD splits within a node",
                                      "--devices=NODESxGPUS"});
        }
      }
    }
    sharding.note = "gradients are whole on each device while they add up";
  }
  if (choice.offload && shards) {
    facts->offload.states = facts->offload.weights = facts->offload.update = true;
  }
  if (choice.checkpointing) {
    facts->recompute = {.what = "block", .blocks = "all", .here = "full"};
  }
}

bool ReadParallelismConfig(Settings* settings, Facts* facts, int64_t* replicas) {
  const auto size = [&](const char* axis) {
    return settings->Int(absl::StrCat("parallelism_config_", axis, "_size"));
  };
  const auto copies = size("dp_replicate"), shards = size("dp_shard"), tensor = size("tp"),
             context = size("cp"), positions = size("sp");
  settings->Text("parallelism_config_cp_comm_strategy");
  if (!copies && !shards && !tensor && !context && !positions) return false;
  DegreeFacts& degrees = facts->degrees;
  degrees.tensor = std::max<int64_t>(1, tensor.value_or(1));
  degrees.context =
      std::max<int64_t>(1, context.value_or(1)) * std::max<int64_t>(1, positions.value_or(1));
  *replicas = std::max<int64_t>(1, copies.value_or(1));
  const int64_t sharded = std::max<int64_t>(1, shards.value_or(1));
  const int64_t all = *replicas * sharded * degrees.tensor * degrees.context;
  const std::string where = settings->Where("parallelism_config_dp_shard_size");
  if (context.value_or(1) > 1 && positions.value_or(1) > 1) {
    facts->broken.push_back(
        {.rule = "cp_size and sp_size exclude each other",
         .numbers = absl::StrCat(*context, " and ", *positions),
         .theirs = "Context Parallelism (CP) and Sequence Parallelism (SP) are mutually exclusive.",
         .hint = "sp_size: 1",
         .where = where});
  }
  if ((degrees.tensor > 1 || context.value_or(1) > 1) && *replicas > 1 && sharded == 1) {
    facts->broken.push_back(
        {.rule = "tp_size and cp_size need dp_shard_size above 1 beside copies",
         .numbers = absl::StrCat("dp_replicate_size ", *replicas, ", dp_shard_size 1"),
         .theirs = "Tensor/Context parallelism (tp/cp_size > 1) cannot be used with pure data "
                   "parallelism (dp_replicate_size > 1 and dp_shard_size == 1).",
         .hint = absl::StrCat("dp_replicate_size: 1, dp_shard_size: ", *replicas),
         .where = where});
  }
  if (facts->devices && all != *facts->devices && positions.value_or(1) == 1 && all > 1) {
    const int64_t others = all / sharded;
    facts->broken.push_back(
        {.rule = "num_processes = dp_replicate x dp_shard x tp x cp",
         .numbers = absl::StrCat(*facts->devices, " is not ", *replicas, " x ", sharded, " x ",
                                 degrees.tensor, " x ", degrees.context, " = ", all),
         .theirs = absl::StrCat("ParallelismConfig total_size (", all,
                                ") does not match num_processes (", *facts->devices, ")."),
         .hint = absl::StrCat("num_processes: ", all,
                              *facts->devices % others == 0
                                  ? absl::StrCat(", or dp_shard_size: ", *facts->devices / others)
                                  : ""),
         .where = where});
    degrees.data = *replicas * sharded;
  }
  return true;
}

void ReadAccelerateMegatron(Settings* settings, Facts* facts) {
  const auto number = [&](const char* name) {
    return settings->Int(absl::StrCat("megatron_lm_", name));
  };
  const auto flag = [&](const char* name) {
    return settings->Bool(absl::StrCat("megatron_lm_", name)).value_or(false);
  };
  DegreeFacts& degrees = facts->degrees;
  degrees.tensor = std::max<int64_t>(1, number("tp_degree").value_or(1));
  degrees.pipe = std::max<int64_t>(1, number("pp_degree").value_or(1));
  degrees.context = std::max<int64_t>(1, number("context_parallel_size").value_or(1));
  degrees.expert = std::max<int64_t>(1, number("expert_model_parallel_size").value_or(1));
  degrees.expert_tensor =
      std::max<int64_t>(1, number("expert_tensor_parallel_size").value_or(degrees.tensor));
  facts->sequence_parallel = flag("sequence_parallelism") && degrees.tensor > 1;
  facts->sharding = {};
  if (flag("use_distributed_optimizer")) {
    facts->sharding.what = "states";
    facts->sharding.over = {"data"};
    if (degrees.context > 1) facts->sharding.over.push_back("context");
    facts->sharding.gather = "once a step";
  }
  if (const auto micro_batches = number("num_micro_batches")) {
    facts->batch.micro_batches = micro_batches;
  }
  if (degrees.pipe > 1) {
    facts->schedule.name = "1f1b";
    const auto last = number("decoder_last_pipeline_num_layers");
    if (facts->model.model) {
      const int64_t layers = facts->model.model->layers();
      const int64_t others = last ? degrees.pipe - 1 : degrees.pipe;
      const int64_t left = last ? layers - *last : layers;
      if (left > 0 && left % others == 0) {
        facts->schedule.stage_layers.assign(others, left / others);
        if (last) facts->schedule.stage_layers.push_back(*last);
      }
    }
  }
  const std::string how = settings->Text("megatron_lm_recompute_granularity").value_or("");
  const auto method = settings->Text("megatron_lm_recompute_method");
  const auto blocks = number("recompute_num_layers");
  if (how == "full") {
    facts->recompute = {.what = "block", .blocks = "all", .here = "full"};
    if (method && *method == "block" && blocks) {
      facts->recompute.blocks = absl::StrCat("the first ", *blocks, " of each stage");
      facts->recompute.here = absl::StrCat("full:", *blocks);
    }
  } else if (how == "selective" || flag("recompute_activations")) {
    facts->recompute = {.what = "core of attention", .blocks = "all", .here = "attention"};
  }
  if (const auto clip = settings->Number("megatron_lm_gradient_clipping")) {
    facts->optimizer.clip = clip;
  }
  if (const auto rate = settings->Number("megatron_lm_hidden_dropout")) {
    facts->dropout_hidden = *rate;
  }
  if (const auto rate = settings->Number("megatron_lm_attention_dropout")) {
    facts->dropout_attention = *rate;
  }
  if (flag("optimizer_cpu_offload")) facts->offload.states = facts->offload.update = true;
}

}  // namespace oneflow::foreign
