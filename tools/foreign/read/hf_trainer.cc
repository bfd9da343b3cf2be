#include "tools/foreign/read/hf_trainer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

using HfKeys = std::initializer_list<const char*>;

constexpr HfKeys kHfModel = {"model_name_or_path",
                             "config_name",
                             "model",
                             "model_name",
                             "model_id",
                             "model_path",
                             "pretrained_model_name_or_path",
                             "base_model",
                             "hf_model",
                             "hf_path",
                             "model_dir",
                             "pretrained_model",
                             "pretrained_model_path",
                             "base_model_name",
                             "model_config"};
constexpr HfKeys kHfSequence = {
    "block_size",      "max_seq_length",       "max_seq_len",         "seq_len",    "seq_length",
    "sequence_length", "sequence_len",         "model_max_length",    "max_length", "cutoff_len",
    "context_length",  "context_len",          "max_sequence_length", "seqlen",     "max_len",
    "ctx_len",         "max_tokens_per_sample"};
constexpr HfKeys kHfMicro = {"per_device_train_batch_size",
                             "per_gpu_train_batch_size",
                             "micro_batch_size",
                             "train_micro_batch_size_per_gpu",
                             "per_device_batch_size",
                             "micro_batch",
                             "batch_size_per_gpu",
                             "batch_size_per_device",
                             "train_batch_size_per_gpu",
                             "mbs"};
constexpr HfKeys kHfBatchOfProcess = {"batch_size", "train_batch_size"};
constexpr HfKeys kHfGlobal = {"global_batch_size", "total_batch_size", "effective_batch_size"};
constexpr HfKeys kHfAccumulation = {"gradient_accumulation_steps",
                                    "grad_accum_steps",
                                    "gradient_accumulation",
                                    "accumulation_steps",
                                    "grad_acc_steps",
                                    "grad_accumulation_steps",
                                    "gas"};
constexpr HfKeys kHfCheckpointing = {
    "gradient_checkpointing", "activation_checkpointing",      "use_gradient_checkpointing",
    "grad_checkpointing",     "enable_gradient_checkpointing", "checkpoint_activations",
    "gradient_checkpoint",    "activation_checkpoint",         "grad_checkpoint"};
constexpr HfKeys kHfSteps = {
    "max_steps", "max_train_steps", "num_training_steps", "total_steps", "train_steps",
    "num_steps", "train_iters",     "num_train_steps",    "steps",       "max_iters"};
constexpr HfKeys kHfRate = {"learning_rate", "lr"};
constexpr HfKeys kHfLeastRate = {"min_lr", "min_learning_rate", "lr_min"};
constexpr HfKeys kHfWarmup = {"warmup_steps", "num_warmup_steps", "lr_warmup_steps",
                              "warmup_iters", "warmup_num_steps", "warmup"};
constexpr HfKeys kHfClip = {"max_grad_norm", "gradient_clipping", "grad_clip", "clip_grad",
                            "clip_grad_norm"};
constexpr HfKeys kHfPrecision = {"mixed_precision", "precision", "torch_dtype", "dtype",
                                 "data_type"};

std::string HfLower(std::string_view text) { return absl::AsciiStrToLower(ToAbsl(text)); }

// The first of `keys` that is said, with a value.
const Setting* HfFind(const Settings& settings, HfKeys keys) {
  for (const char* key : keys) {
    const Setting* found = settings.Find(key);
    if (found != nullptr && !found->value.is_null()) return found;
  }
  return nullptr;
}

// Words of a user's own script may mean anything, so only those that parse are taken.
std::optional<double> HfNumber(Settings* settings, HfKeys keys) {
  std::optional<double> number;
  for (const char* key : keys) {
    const Setting* found = settings->Find(key);
    double value = 0;
    if (found == nullptr || found->is_switch || found->value.is_structured()) continue;
    if (!absl::SimpleAtod(found->ValueText(), &value) || !std::isfinite(value)) continue;
    const std::optional<double> taken = settings->Number(key);
    if (!number) number = taken;
  }
  return number;
}

std::optional<int64_t> HfInt(Settings* settings, HfKeys keys) {
  const std::optional<double> number = HfNumber(settings, keys);
  if (!number || *number != std::floor(*number) || *number < 1 || *number > 1e12) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<bool> HfBool(Settings* settings, HfKeys keys) {
  std::optional<bool> result;
  for (const char* key : keys) {
    const Setting* found = settings->Find(key);
    if (found == nullptr || found->value.is_structured()) continue;
    bool is_bool = found->is_switch;
    for (const char* word : {"true", "false", "yes", "no", "1", "0", "on", "off"}) {
      if (HfLower(found->ValueText()) == word) is_bool = true;
    }
    // axolotl writes gradient_checkpointing: unsloth, offload.
    const std::optional<bool> taken =
        is_bool ? settings->Bool(key) : std::optional<bool>(settings->Text(key).has_value());
    if (!result) result = taken;
  }
  return result;
}

// True if --accelerator_config asks for a reduction of gradients in each micro-batch.
bool HfSyncsEachBatch(Settings* settings) {
  const Setting* config = settings->Find("accelerator_config");
  if (config == nullptr || config->is_switch) return false;
  const nlohmann::json parsed =
      config->value.is_string() ? nlohmann::json::parse(config->value.get<std::string>(), nullptr,
                                                        /*allow_exceptions=*/false)
                                : nlohmann::json(config->value);
  const char* section = "gradient_accumulation_kwargs";
  if (!parsed.is_object() || !parsed.contains(section)) return false;
  const nlohmann::json& kwargs = parsed[section];
  const char* key = "sync_each_batch";
  if (!kwargs.is_object() || !kwargs.contains(key) || kwargs[key] != true) return false;
  settings->Put("accelerator_config", List::kTaken);
  return true;
}

// {"min_lr": 1e-6} or "{\"min_lr\": 1e-6}", or settings min_lr of a flattened object.
std::optional<double> HfSchedulerNumber(Settings* settings, const char* name) {
  const std::string flat = absl::StrCat("lr_scheduler_kwargs.", name);
  if (settings->Has(flat)) return settings->Number(flat);
  const nlohmann::json* value = settings->Value("lr_scheduler_kwargs");
  if (value == nullptr) return std::nullopt;
  nlohmann::json parsed = *value;
  if (value->is_string()) {
    std::string text = value->get<std::string>();
    std::replace(text.begin(), text.end(), '\'', '"');
    parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  if (!parsed.is_object() || !parsed.contains(name)) return std::nullopt;
  const nlohmann::json& number = parsed[name];
  if (number.is_number()) return number.get<double>();
  double from_text = 0;
  if (number.is_string() && absl::SimpleAtod(number.get<std::string>(), &from_text)) {
    return from_text;
  }
  return std::nullopt;
}

void ReadHfScheduler(Settings* settings, bool is_trainer, TrainerWords* words) {
  OptimizerFacts& o = words->optimizer;
  const std::optional<std::string> said = settings->Has("lr_scheduler_type")
                                              ? settings->Text("lr_scheduler_type")
                                              : settings->Text("lr_scheduler");
  const std::string name = HfLower(said.value_or(is_trainer ? "linear" : "constant"));
  const bool decays = name == "linear" || name == "cosine" || name == "cosine_with_min_lr" ||
                      name == "cosine_warmup_with_min_lr" || name == "polynomial";
  o.schedule = name;
  if (name == "cosine_with_min_lr" || name == "cosine_warmup_with_min_lr") o.schedule = "cosine";
  if (name == "polynomial") o.schedule = "linear";  // its power is 1 unless said
  if (name == "constant_with_warmup") o.schedule = "constant";
  const std::optional<double> least = HfNumber(settings, kHfLeastRate);
  if (decays) {
    o.min_learning_rate = name == "polynomial" ? 1e-7 : 0;
    if (least) o.min_learning_rate = least;
    if (const auto rate = HfSchedulerNumber(settings, "min_lr")) o.min_learning_rate = rate;
    if (const auto share = HfSchedulerNumber(settings, "min_lr_rate")) {
      if (o.learning_rate) o.min_learning_rate = *share * *o.learning_rate;
    }
    if (name == "polynomial") {
      if (const auto last = HfSchedulerNumber(settings, "lr_end")) o.min_learning_rate = last;
    }
    if (o.steps) o.decay_steps = o.steps;
  }
  if (settings->Has("lr_scheduler_kwargs")) settings->Value("lr_scheduler_kwargs");
  if (!decays && o.schedule != "constant") {
    const char* key = settings->Has("lr_scheduler_type") ? "lr_scheduler_type" : "lr_scheduler";
    settings->Put(key, List::kNoEquivalent,
                  "another course of the learning rate; no byte or second");
    settings->Put("lr_scheduler_kwargs", List::kNoEquivalent, "of that course");
  }
  // A number below 1 is a share of the steps, as is warmup_ratio; more than 0 steps beat it.
  std::optional<double> warmup = HfNumber(settings, kHfWarmup);
  const std::optional<double> ratio = HfNumber(settings, {"warmup_ratio"});
  if (ratio && !(warmup && *warmup > 0)) warmup = *ratio < 1 ? *ratio : 0;
  if (!warmup && is_trainer) warmup = 0;
  if (name == "constant") warmup = is_trainer ? std::optional<double>(0) : warmup;
  if (!warmup) return;
  if (*warmup >= 1 || *warmup == 0) {
    o.warmup_steps = static_cast<int64_t>(*warmup);
  } else if (o.steps) {
    o.warmup_steps = static_cast<int64_t>(std::ceil(*warmup * static_cast<double>(*o.steps)));
  }
}

void ReadHfOptimizer(Settings* settings, bool is_trainer, TrainerWords* words) {
  OptimizerFacts& o = words->optimizer;
  o.learning_rate = HfNumber(settings, kHfRate);
  o.beta1 = HfNumber(settings, {"adam_beta1", "beta1"});
  o.beta2 = HfNumber(settings, {"adam_beta2", "beta2"});
  o.epsilon = HfNumber(settings, {"adam_epsilon", "adam_eps", "eps"});
  o.weight_decay = HfNumber(settings, {"weight_decay", "wd"});
  o.clip = HfNumber(settings, kHfClip);
  o.steps = HfInt(settings, kHfSteps);
  if (is_trainer) {
    if (!o.learning_rate) o.learning_rate = words->kind == ScriptKind::kTrl ? 2e-5 : 5e-5;
    if (!o.beta1) o.beta1 = 0.9;
    if (!o.beta2) o.beta2 = 0.999;
    if (!o.epsilon) o.epsilon = 1e-8;
    if (!o.weight_decay) o.weight_decay = 0;
    if (!o.clip) o.clip = 1;
  } else if (words->kind == ScriptKind::kNoTrainer) {
    if (!o.learning_rate) o.learning_rate = 5e-5;
    if (!o.weight_decay) o.weight_decay = 0;
    o.beta1 = 0.9, o.beta2 = 0.999, o.epsilon = 1e-8;
  }
  ReadHfScheduler(settings, is_trainer || words->kind == ScriptKind::kNoTrainer, words);

  const char* key = settings->Has("optim") ? "optim" : "optimizer";
  const Setting* setting = settings->Find(key);
  if (settings->Bool("adafactor").value_or(false)) o.name = "adafactor";
  if (setting == nullptr || setting->value.is_structured() || setting->is_switch) return;
  const std::string name = HfLower(settings->Text(key).value_or("adamw"));
  const bool is_adamw = name == "adamw" || name == "adam" || name.starts_with("adamw_torch") ||
                        name == "adamw_hf" || name == "adamw_apex_fused" ||
                        name == "adamw_anyprecision";
  if (is_adamw && !name.ends_with("bit")) return;
  o.name = name;
  settings->Put(
      key, List::kNoEquivalent,
      name.find("8bit") != std::string::npos
          ? "states of 1 byte each: 2 bytes a parameter in place of 8"
      : name.starts_with("paged_adamw")
          ? "states that the driver moves to the host where memory is short; here --offload=states"
          : "another optimizer: its states have other bytes than the 8 a parameter of AdamW's");
}

void ReadHfPrecision(Settings* settings, bool is_own, TrainerWords* words) {
  if (settings->Has("bf16")) words->bf16 = HfBool(settings, {"bf16"});
  if (settings->Has("fp16")) words->fp16 = HfBool(settings, {"fp16"});
  const char* note = "fp16 with loss scaling; here bf16, of as many bytes, which needs none";
  if (words->fp16.value_or(false)) settings->Put("fp16", List::kNoEquivalent, note);
  const Setting* found = HfFind(*settings, kHfPrecision);
  if (found == nullptr) return;
  const std::string key = found->key, value = HfLower(found->ValueText());
  const bool is_bf16 =
      value == "bf16" || value == "bfloat16" || value == "torch.bfloat16" || value == "bf16-mixed";
  const bool is_fp16 = value == "fp16" || value == "float16" || value == "torch.float16" ||
                       value == "half" || value == "fp16-mixed" || value == "16";
  const bool is_f32 = value == "no" || value == "fp32" || value == "float32" || value == "32" ||
                      value == "torch.float32";
  if (is_own && (is_bf16 || is_fp16 || is_f32)) {
    settings->Text(key);
    if (!words->bf16 && !words->fp16) words->bf16 = is_bf16, words->fp16 = is_fp16;
    if (is_fp16) settings->Put(key, List::kNoEquivalent, note);
  } else if (key == "torch_dtype" || key == "dtype") {
    // The type in which the model is loaded. Masters are in f32 again where FSDP or DeepSpeed
    // mixes precisions; readers without them say otherwise.
    settings->Put(key, List::kNoEffect);
  }
}

}  // namespace

ScriptKind FindScriptKind(std::string_view program, const Settings& words) {
  const std::string name(program.substr(program.find_last_of('/') + 1));
  if (name.find("no_trainer") != std::string::npos) return ScriptKind::kNoTrainer;
  if (program.find("trl/") != std::string::npos || program.find("trl.") != std::string::npos) {
    return ScriptKind::kTrl;
  }
  if (words.Has("num_warmup_steps") || words.Has("max_train_steps") || words.Has("zero_stage")) {
    return words.Has("per_device_train_batch_size") ? ScriptKind::kNoTrainer : ScriptKind::kOwn;
  }
  if (name.starts_with("run_") && words.Has("output_dir")) return ScriptKind::kTrainer;
  const Setting* deepspeed = words.Find("deepspeed");
  if (deepspeed != nullptr && !deepspeed->is_switch && deepspeed->value.is_string() &&
      (deepspeed->ValueText().ends_with(".json") || words.Has("output_dir"))) {
    return ScriptKind::kTrainer;
  }
  int trainers = 0;
  for (const char* key :
       {"per_device_train_batch_size", "output_dir", "lr_scheduler_type", "save_strategy",
        "logging_steps", "report_to", "save_total_limit", "warmup_ratio", "max_grad_norm",
        "adam_beta2", "do_train", "fsdp", "num_train_epochs", "optim", "bf16", "save_steps"}) {
    trainers += words.Has(key);
  }
  return trainers >= 3 || words.Has("fsdp") ? ScriptKind::kTrainer : ScriptKind::kOwn;
}

TrainerWords ReadTrainerWords(Settings* settings, ScriptKind kind) {
  TrainerWords words;
  words.kind = kind;
  const bool is_trainer = words.is_trainer();
  for (const char* key : kHfModel) {
    const Setting* found = settings->Find(key);
    if (found == nullptr || found->is_switch || !found->value.is_string()) continue;
    const std::string value = settings->Text(key).value_or("");
    if (words.model.empty()) words.model = value;
  }
  words.sequence = HfInt(settings, kHfSequence);
  words.micro = HfInt(settings, kHfMicro);
  if (!words.micro && !is_trainer) words.micro = HfInt(settings, kHfBatchOfProcess);
  words.global = is_trainer ? std::nullopt : HfInt(settings, kHfGlobal);
  words.accumulation = HfInt(settings, kHfAccumulation);
  words.syncs_each_batch = HfSyncsEachBatch(settings);
  if (is_trainer) {
    // Those that parse are taken by now; the others are Trainer's own errors.
    settings->Int("per_device_train_batch_size");
    settings->Int("gradient_accumulation_steps");
    settings->Number("learning_rate");
    settings->Int("max_steps");
  }
  if (is_trainer || kind == ScriptKind::kNoTrainer) {
    if (!words.micro) words.micro = 8;
    if (!words.accumulation) words.accumulation = 1;
  }
  words.checkpointing = HfBool(settings, kHfCheckpointing);
  if (kind == ScriptKind::kTrl && !words.checkpointing) words.checkpointing = true;
  if (kind == ScriptKind::kTrl && !words.sequence) words.sequence = 1024;
  const Setting* deepspeed = settings->Find("deepspeed");
  if (deepspeed != nullptr && !deepspeed->value.is_structured()) {
    settings->Value("deepspeed");
    const std::string value = deepspeed->ValueText();
    if (value != "true" && value != "false") words.deepspeed = value;
  }
  if (const auto file = settings->Text("deepspeed_config")) words.deepspeed = *file;
  settings->Bool("enable_deepspeed");
  ReadHfPrecision(settings, !is_trainer, &words);
  if (kind == ScriptKind::kTrl && !words.fp16.value_or(false) && !words.bf16) words.bf16 = true;
  ReadHfOptimizer(settings, is_trainer, &words);
  if (!is_trainer) {
    words.tensor = HfInt(settings, {"tensor_parallel_size", "tp_size", "tp", "autotp_size",
                                    "tensor_model_parallel_size"});
    words.pipe = HfInt(settings, {"pipeline_parallel_size", "pipe_parallel_size", "pp_size", "pp",
                                  "pipeline_stages", "num_stages", "p"});
    words.context = HfInt(settings, {"sequence_parallel_size", "sp_size", "ulysses_degree",
                                     "sequence_parallel_degree", "context_parallel_size"});
  }
  return words;
}

void UseTrainerWords(const TrainerWords& words, Facts* facts) {
  facts->optimizer = words.optimizer;
  if (words.checkpointing.value_or(false)) {
    facts->recompute = {.what = "block", .blocks = "all", .here = "full"};
  }
  if (words.bf16.value_or(false)) {
    facts->precision = {.compute = "bf16", .here = "bf16"};
  } else if (words.fp16.value_or(false)) {
    facts->precision = {.compute = "fp16, dynamic loss scale", .here = "bf16"};
  }
  if (words.is_trainer()) facts->together_with.push_back("hf-trainer");
}

void AddSettings(const std::vector<Setting>& settings, Facts* facts) {
  facts->settings.insert(facts->settings.end(), settings.begin(), settings.end());
}

}  // namespace oneflow::foreign
