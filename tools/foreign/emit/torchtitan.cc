// torchtitan, in the form of TOML files that its releases before 2026 read: train.toml; flavor.py
// with the model, where torchtitan has none of its shape; and run.sh.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/layout.h"
#include "tools/foreign/emit/round_systems.h"
#include "tools/foreign/emit/text.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {
namespace {

// The shapes that torchtitan has by name: numbers as text of a proto::Model.
struct Flavor {
  std::string_view module, name;
  int64_t layers, hidden, heads, groups, head_dim, inner, vocab;
  double theta;
  bool tied;
};

constexpr int64_t kLlamaVocab = 128256, kQwenVocab = 151936;
constexpr Flavor kFlavors[] = {
    {"llama3", "8B", 32, 4096, 32, 8, 128, 14336, kLlamaVocab, 500000, false},
    {"llama3", "70B", 80, 8192, 64, 8, 128, 28672, kLlamaVocab, 500000, false},
    {"llama3", "405B", 126, 16384, 128, 8, 128, 53248, kLlamaVocab, 500000, false},
    {"qwen3", "0.6B", 28, 1024, 16, 8, 128, 3072, kQwenVocab, 1000000, true},
    {"qwen3", "1.7B", 28, 2048, 16, 8, 128, 6144, kQwenVocab, 1000000, true},
    {"qwen3", "4B", 36, 2560, 32, 8, 128, 9728, kQwenVocab, 1000000, true},
    {"qwen3", "8B", 36, 4096, 32, 8, 128, 12288, kQwenVocab, 1000000, false},
    {"qwen3", "14B", 40, 5120, 40, 8, 128, 17408, kQwenVocab, 1000000, false},
    {"qwen3", "32B", 64, 5120, 64, 8, 128, 25600, kQwenVocab, 1000000, false},
};

bool HasScalingOfFlavors(const proto::Model& model) {
  const proto::RopeScaling& s = model.rope_scaling();
  return s.factor() == 8 && s.low() == 1 && s.high() == 4 && s.positions() == 8192;
}

// The name of torchtitan's own flavor of the model; "" where it has none.
std::string FindFlavor(const proto::Model& model, const std::string& module) {
  const bool llama3 = module == "llama3";
  const bool plain =
      model.experts() == 0 && (llama3 ? HasScalingOfFlavors(model) : model.qk_norm());
  if (!plain || model.norm_epsilon() != (llama3 ? 1e-5 : 1e-6)) return "";
  for (const Flavor& f : kFlavors) {
    if (f.module == module && f.layers == model.layers() && f.hidden == model.hidden() &&
        f.heads == model.heads() && f.groups == model.groups() && f.head_dim == model.head_dim() &&
        f.inner == model.inner() && f.vocab == model.vocab() && f.theta == model.theta() &&
        f.tied == model.tied()) {
      return std::string(f.name);
    }
  }
  return "";
}

std::string PythonBool(bool value) { return value ? "True" : "False"; }

using PythonArguments = std::vector<std::pair<std::string, std::string>>;

// llama3 computes the width of its MLP: 8/3 of dim, times a factor, up to a multiple.
void AddWidth(const proto::Model& model, PythonArguments* arguments) {
  const auto usual = static_cast<int64_t>(2 * (4 * model.hidden()) / 3);
  const bool less = model.inner() < usual;
  const double factor =
      less ? (static_cast<double>(model.inner()) - 0.5) / static_cast<double>(usual) : 1;
  arguments->push_back({"multiple_of", absl::StrCat(model.inner())});
  if (less) arguments->push_back({"ffn_dim_multiplier", ExactText(factor)});
}

PythonArguments LlamaArguments(const proto::Model& model) {
  PythonArguments arguments = {
      {"dim", absl::StrCat(model.hidden())},       {"n_layers", absl::StrCat(model.layers())},
      {"n_heads", absl::StrCat(model.heads())},    {"n_kv_heads", absl::StrCat(model.groups())},
      {"vocab_size", absl::StrCat(model.vocab())}, {"norm_eps", ExactText(model.norm_epsilon())},
      {"rope_theta", ExactText(model.theta())}};
  AddWidth(model, &arguments);
  const proto::RopeScaling& s = model.rope_scaling();
  // A factor of 1 scales nothing.
  const std::string scaling =
      s.factor() > 0 ? absl::StrCat("scaling_factor=", ExactText(s.factor()),
                                    ", low_freq_factor=", ExactText(s.low()),
                                    ", high_freq_factor=", ExactText(s.high()),
                                    ", original_max_position_embeddings=", s.positions())
                     : "scaling_factor=1.0";
  arguments.push_back({"rope_scaling_args", "RoPEScalingArgs(" + scaling + ")"});
  return arguments;
}

PythonArguments QwenArguments(const proto::Model& model) {
  PythonArguments arguments = {{"dim", absl::StrCat(model.hidden())},
                               {"n_layers", absl::StrCat(model.layers())},
                               {"n_heads", absl::StrCat(model.heads())},
                               {"n_kv_heads", absl::StrCat(model.groups())},
                               {"head_dim", absl::StrCat(model.head_dim())},
                               {"hidden_dim", absl::StrCat(model.inner())},
                               {"vocab_size", absl::StrCat(model.vocab())},
                               {"norm_eps", ExactText(model.norm_epsilon())},
                               {"rope_theta", ExactText(model.theta())},
                               {"qk_norm", PythonBool(model.qk_norm())},
                               {"enable_weight_tying", PythonBool(model.tied())}};
  if (model.experts() == 0) return arguments;
  arguments.push_back({"moe_enabled", "True"});
  arguments.push_back({"moe_inter_dim", absl::StrCat(model.inner())});
  arguments.push_back(
      {"moe_args",
       absl::StrCat("MoEArgs(num_experts=", model.experts(),
                    ", num_shared_experts=0, top_k=", model.experts_per_token(), ", score_func=\"",
                    model.scores(), "\", route_norm=", PythonBool(model.norm_topk_prob()),
                    ", score_before_experts=False",
                    model.bias_rate() > 0
                        ? absl::StrCat(", load_balance_coeff=", ExactText(model.bias_rate()))
                        : "",
                    ")")});
  return arguments;
}

std::string FlavorModule(const Job& job, const std::string& module) {
  const bool llama3 = module == "llama3";
  PythonArguments arguments = llama3 ? LlamaArguments(job.model) : QwenArguments(job.model);
  if (job.recipe.documents()) {
    arguments.push_back({"attn_type", "\"flex\""});
    arguments.push_back({"attn_mask_type", "\"block_causal\""});
  }
  const std::string type = llama3 ? "TransformerModelArgs" : "Qwen3ModelArgs";
  std::string text = absl::StrCat("# The model's shape, which no flavor of torchtitan's ", module,
                                  " has.\nfrom torchtitan.models.", module, " import ", module,
                                  "_args\nfrom torchtitan.models.", module, ".model.args import ",
                                  llama3 ? "RoPEScalingArgs, " : "", type, "\n");
  if (job.model.experts() > 0) text += "from torchtitan.models.moe import MoEArgs\n";
  absl::StrAppend(&text, "\n", module, "_args[\"planned\"] = ", type, "(\n");
  for (const auto& [name, value] : arguments) {
    absl::StrAppend(&text, "    ", name, "=", value, ",\n");
  }
  return text + ")\n";
}

// A table of the file.
class TomlTable {
 public:
  explicit TomlTable(const std::string& name) : text_(absl::StrCat("\n[", name, "]\n")) {}
  TomlTable& Text(const std::string& key, const std::string& value) {
    return Plain(key, "\"" + value + "\"");
  }
  template <typename Value>
  TomlTable& Plain(const std::string& key, const Value& value) {
    absl::StrAppend(&text_, key, " = ", value, "\n");
    return *this;
  }
  TomlTable& Bool(const std::string& key, bool value) {
    return Plain(key, value ? "true" : "false");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string OptimizerTables(const Job& job) {
  const proto::Optimizer& o = job.optimizer;
  TomlTable optimizer("optimizer"), schedule("lr_scheduler");
  optimizer.Text("name", "AdamW").Plain("lr", FloatText(o.learning_rate()));
  optimizer.Plain("beta1", FloatText(o.beta1())).Plain("beta2", FloatText(o.beta2()));
  optimizer.Plain("eps", FloatText(o.epsilon()));
  optimizer.Plain("weight_decay", FloatText(o.weight_decay()));
  schedule.Plain("warmup_steps", o.warmup_steps());
  if (o.lr_schedule() == proto::Optimizer::CONSTANT) {
    schedule.Plain("decay_ratio", "0.0");
  } else {
    if (o.decay_steps() > job.run.steps()) schedule.Plain("total_steps", o.decay_steps());
    schedule.Text("decay_type", FieldText(*FindRow(OptimizerRows(), "lr_schedule"), o));
  }
  schedule.Plain("min_lr_factor", FloatText(o.min_learning_rate() / o.learning_rate()));
  return optimizer.text() + schedule.text();
}

std::string ScheduleName(const std::string& schedule) {
  if (schedule == "gpipe") return "GPipe";
  if (schedule == "interleaved") return "Interleaved1F1B";
  return schedule == "zero_bubble" ? "InterleavedZeroBubble" : "1F1B";
}

std::string ReshardWord(const proto::Recipe& recipe) {
  return recipe.gather() == proto::EACH_USE ? "always" : "never";
}

std::string ParallelismTable(const Job& job, const AxisDegrees& degrees) {
  const proto::Recipe& recipe = job.recipe;
  const bool fsdp = CountSplit(recipe) == 3;
  const int64_t shard = fsdp ? degrees.shard : 1;
  TomlTable table("parallelism");
  table.Plain("data_parallel_replicate_degree", degrees.data / shard);
  table.Plain("data_parallel_shard_degree", shard);
  if (fsdp) table.Text("fsdp_reshard_after_forward", ReshardWord(recipe));
  table.Plain("tensor_parallel_degree", degrees.tensor);
  table.Plain("context_parallel_degree", degrees.context);
  table.Plain("expert_parallel_degree", degrees.expert);
  if (degrees.expert > 1) table.Plain("expert_tensor_parallel_degree", degrees.tensor);
  table.Plain("pipeline_parallel_degree", degrees.pipe);
  if (degrees.pipe == 1) return table.text();
  table.Text("pipeline_parallel_schedule", ScheduleName(recipe.schedule()));
  table.Plain("pipeline_parallel_microbatch_size", FindMicroBatch(recipe, degrees).value());
  std::vector<std::string> parts;
  for (const std::vector<std::string>& part : TorchtitanParts(FindSlices(job))) {
    parts.push_back("    " + QuotedList(part));
  }
  table.Plain("module_fqns_per_model_part",
              absl::StrCat("[\n", absl::StrJoin(parts, ",\n"), "\n]"));
  return table.text();
}

std::string TrainingTable(const Job& job, const AxisDegrees& degrees) {
  const proto::Recipe& recipe = job.recipe;
  // A pipeline takes all its micro-batches from one local batch.
  const int64_t micro = FindMicroBatch(recipe, degrees).value();
  const int64_t local = degrees.pipe > 1 ? micro * recipe.micro_batches() : micro;
  TomlTable table("training");
  table.Plain("local_batch_size", local).Plain("global_batch_size", recipe.batch());
  table.Plain("seq_len", job.model.sequence()).Plain("steps", job.run.steps());
  // A norm of 0 would make all gradients 0.
  const double clip = job.optimizer.clip();
  table.Plain("max_norm", clip > 0 ? FloatText(clip) : "inf");
  const bool bf16 = recipe.precision() == proto::BF16;
  table.Text("mixed_precision_param", bf16 ? "bfloat16" : "float32");
  table.Text("mixed_precision_reduce", "float32");
  table.Bool("enable_cpu_offload", recipe.update_on() == proto::UPDATE_ON_HOST);
  table.Text("dataset", "c4_test");
  return table.text();
}

std::string RecomputeTable(const proto::Recompute& recompute) {
  TomlTable table("activation_checkpoint");
  const std::string policy = recompute.term().empty() ? "none" : recompute.term(0).policy();
  table.Text("mode", policy);
  if (policy == "selective") table.Text("selective_ac_option", "op");
  return table.text();
}

}  // namespace

std::vector<EmittedFile> WriteTorchtitan(const Job& job) {
  const AxisDegrees degrees = FindDegrees(job.recipe).value();
  const std::string module = FindTitanModule(job.model).value();
  const std::string flavor = job.recipe.documents() ? "" : FindFlavor(job.model, module);
  TomlTable model("model"), seed("debug"), compile("compile");
  model.Text("name", module).Text("flavor", flavor.empty() ? "planned" : flavor);
  model.Text("hf_assets_path", "./tests/assets/tokenizer");
  seed.Plain("seed", job.run.seed());
  compile.Bool("enable", job.recipe.fuse());
  std::string text = absl::StrCat("# ", DescribeJob(job, degrees), ".\n", "[job]\ndescription = \"",
                                  job.name, "\"\n", model.text());
  if (flavor.empty()) {
    text += TomlTable("experimental").Text("custom_import", "flavor").text();
  }
  absl::StrAppend(&text, OptimizerTables(job), TrainingTable(job, degrees),
                  ParallelismTable(job, degrees), RecomputeTable(job.recipe.recompute()),
                  compile.text(), seed.text());
  const Nodes nodes = FindNodes(degrees.devices(), job.devices_a_node);
  const std::string run = absl::StrCat(
      "#!/bin/bash\n# ", DescribeJob(job, degrees),
      ".\n# Run it where torchtitan is installed (a release that reads TOML, as v0.2.2), on each "
      "node with its\n# NODE_RANK. The tokenizer of its tests stands for yours: see "
      "hf_assets_path.\nexport PYTHONPATH=${PYTHONPATH:-.}:.\ntorchrun --nnodes ",
      nodes.nodes, " --nproc_per_node ", nodes.each,
      " --node_rank ${NODE_RANK:-0} \\\n  --master_addr ${MASTER_ADDR:-localhost} --master_port "
      "${MASTER_PORT:-29500} \\\n  -m torchtitan.train --job.config_file train.toml\n");
  std::vector<EmittedFile> files = {{"run.sh", run, /*executable=*/true}, {"train.toml", text}};
  if (flavor.empty()) files.push_back({"flavor.py", FlavorModule(job, module)});
  return files;
}

}  // namespace oneflow::foreign
