#include "tools/foreign/read/ds_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

std::string DsLower(std::string_view text) { return absl::AsciiStrToLower(ToAbsl(text)); }

void DsBreak(Facts* facts, BrokenRule rule) { facts->broken.push_back(std::move(rule)); }

// What rests where: of offload_optimizer and offload_param, with the names of old releases.
std::string DsOffloadDevice(DeepSpeedValues* values, const char* section, const char* old,
                            Facts* facts) {
  const std::string key = absl::StrCat("zero_optimization.", section, ".device");
  std::string device = DsLower(values->Text(key).value_or("none"));
  if (values->Bool(absl::StrCat("zero_optimization.", old)).value_or(false) && device == "none") {
    device = "cpu";
  }
  if (device != "none" && device != "cpu" && device != "nvme") {
    DsBreak(facts, {.rule = absl::StrCat(section, ".device is none, cpu or nvme"),
                    .numbers = device,
                    .theirs = "Input should be 'none', 'cpu' or 'nvme'",
                    .hint = "\"device\": \"cpu\"",
                    .where = values->Where(key)});
  }
  if (device == "nvme") {
    values->Put(key, List::kNoEquivalent, "rests on NVMe; here in the host's memory");
  }
  return device;
}

void ReadDsOffload(DeepSpeedValues* values, int64_t stage, Facts* facts) {
  const std::string states = DsOffloadDevice(values, "offload_optimizer", "cpu_offload", facts);
  const std::string weights = DsOffloadDevice(values, "offload_param", "cpu_offload_param", facts);
  if (stage > 0 && states != "none") {
    facts->offload.states = true;
    facts->offload.update = true;
  }
  if (weights == "none") return;
  if (stage == 3) {
    facts->offload.weights = true;
  } else {
    values->Put("zero_optimization.offload_param.device", List::kNoEffect, "of ZeRO 3 alone");
  }
}

// Groups of MiCS, or of hpZ within the split over all.
void ReadDsGroups(DeepSpeedValues* values, int64_t stage, Facts* facts) {
  const std::optional<int64_t> data = DataDegree(*facts);
  const std::optional<int64_t> group = values->Int("zero_optimization.mics_shard_size");
  ShardingFacts& sharding = facts->sharding;
  if (group && *group > 0 && stage == 3) {
    if (data && *data % *group != 0) {
      DsBreak(facts, {.rule = "GPUs must be a multiple of mics_shard_size",
                      .numbers = absl::StrCat(*data, " is not a multiple of ", *group),
                      .theirs = absl::StrCat(*data, " is not divisible by ", *group),
                      .hint = absl::StrCat("\"mics_shard_size\": ", std::gcd(*data, *group)),
                      .where = values->Where("zero_optimization.mics_shard_size")});
    } else {
      sharding.ways = *group;
      if (data) sharding.replicas = *data / *group;
      sharding.note = absl::StrCat("MiCS: groups of ", *group);
    }
  }
  const int64_t second = values->Int("zero_optimization.zero_hpz_partition_size").value_or(1);
  if (second <= 1) return;
  if (stage != 3) {
    values->Put("zero_optimization.zero_hpz_partition_size", List::kNoEffect, "of ZeRO 3 alone");
    return;
  }
  if (data && *data % second != 0) {
    DsBreak(facts, {.rule = "GPUs must be a multiple of zero_hpz_partition_size",
                    .numbers = absl::StrCat(*data, " is not a multiple of ", second),
                    .theirs = absl::StrCat(*data, " is not divisible by ", second),
                    .hint = absl::StrCat("\"zero_hpz_partition_size\": ", std::gcd(*data, second)),
                    .where = values->Where("zero_optimization.zero_hpz_partition_size")});
  }
  sharding.note = absl::StrCat("hpZ: the backward gathers in groups of ", second);
  values->Put(
      "zero_optimization.zero_hpz_partition_size", List::kNoEquivalent,
      absl::StrCat("a second copy of the weights in each group of ", second, ", of 2 / ", second,
                   " bytes a parameter; gathers of the backward stay in the group"));
}

}  // namespace

void DeepSpeedValues::Fill(std::string_view key, nlohmann::json value) {
  filled_[std::string(key)] = std::move(value);
}

bool DeepSpeedValues::IsAuto(std::string_view key) const {
  const Setting* setting = settings_->Find(key);
  return setting != nullptr && setting->value.is_string() && setting->ValueText() == "auto";
}

const nlohmann::json* DeepSpeedValues::Filled(std::string_view key) {
  static const nlohmann::json kNothing;
  if (!IsAuto(key)) return nullptr;
  settings_->Value(key);  // taken
  const auto found = filled_.find(key);
  if (found != filled_.end()) return &found->second;
  if (std::find(unfilled_.begin(), unfilled_.end(), key) == unfilled_.end()) {
    unfilled_.emplace_back(key);
  }
  return &kNothing;
}

std::optional<int64_t> DeepSpeedValues::Int(std::string_view key) {
  const nlohmann::json* filled = Filled(key);
  if (filled == nullptr) return settings_->Int(key);
  if (!filled->is_number()) return std::nullopt;
  return static_cast<int64_t>(filled->get<double>());
}

std::optional<double> DeepSpeedValues::Number(std::string_view key) {
  const nlohmann::json* filled = Filled(key);
  if (filled == nullptr) return settings_->Number(key);
  return filled->is_number() ? std::optional<double>(filled->get<double>()) : std::nullopt;
}

std::optional<std::string> DeepSpeedValues::Text(std::string_view key) {
  const nlohmann::json* filled = Filled(key);
  if (filled == nullptr) return settings_->Text(key);
  return filled->is_string() ? std::optional<std::string>(filled->get<std::string>())
                             : std::nullopt;
}

std::optional<bool> DeepSpeedValues::Bool(std::string_view key) {
  const nlohmann::json* filled = Filled(key);
  if (filled == nullptr) return settings_->Bool(key);
  return filled->is_boolean() ? std::optional<bool>(filled->get<bool>()) : std::nullopt;
}

const nlohmann::json* DeepSpeedValues::Value(std::string_view key) {
  const nlohmann::json* filled = Filled(key);
  if (filled == nullptr) return settings_->Value(key);
  return filled->is_null() ? nullptr : filled;
}

void FillFromTrainer(const TrainerWords& words, const Facts& facts, DeepSpeedValues* values,
                     Facts* broken) {
  // Trainer's fill_match: a key that is absent stays so.
  const auto match = [&](const char* key, const std::optional<double>& number, const char* theirs) {
    if (!number) return;
    values->Fill(key, *number);
    if (!values->Has(key) || values->IsAuto(key)) return;
    const std::optional<double> said = values->Number(key);
    if (!said || *said == *number) return;
    DsBreak(broken, {.rule = absl::StrCat("DeepSpeed's ", key, " = TrainingArguments' ", theirs),
                     .numbers = absl::StrCat(*said, " is not ", *number),
                     .theirs = absl::StrCat("Please correct the following DeepSpeed config values "
                                            "that mismatch TrainingArguments values: - ds ",
                                            key, "=", *said, " vs hf ", theirs, "=", *number),
                     .hint = absl::StrCat("\"", key, "\": \"auto\", or --", theirs, " ", *said),
                     .where = values->Where(key)});
  };
  const auto as_number = [](const std::optional<int64_t>& value) {
    return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
  };
  const OptimizerFacts& o = words.optimizer;
  match("train_micro_batch_size_per_gpu", as_number(words.micro), "per_device_train_batch_size");
  match("gradient_accumulation_steps", as_number(words.accumulation),
        "gradient_accumulation_steps");
  // A mismatch is told once: the batch then follows from the JSON's own numbers.
  const bool agrees = broken->broken.empty();
  if (const auto data = DataDegree(facts); agrees && data && words.micro && words.accumulation) {
    match("train_batch_size", as_number(*words.micro * *words.accumulation * *data),
          "train_batch_size (calculated)");
  }
  match("gradient_clipping", o.clip, "max_grad_norm");
  match("optimizer.params.lr", o.learning_rate, "learning_rate");
  match("optimizer.params.eps", o.epsilon, "adam_epsilon");
  match("optimizer.params.weight_decay", o.weight_decay, "weight_decay");
  match("scheduler.params.warmup_max_lr", o.learning_rate, "learning_rate");
  match("scheduler.params.warmup_num_steps", as_number(o.warmup_steps), "warmup_steps");
  match("scheduler.params.total_num_steps", as_number(o.steps), "max_steps");
  values->Fill("optimizer.params.betas", {o.beta1.value_or(0.9), o.beta2.value_or(0.999)});
  values->Fill("scheduler.params.warmup_min_lr", 0);
  for (const auto& [key, said, theirs] :
       {std::tuple{"fp16.enabled", words.fp16, "fp16"}, {"bf16.enabled", words.bf16, "bf16"}}) {
    values->Fill(key, said.value_or(false));
    if (!values->Has(key) || values->IsAuto(key)) continue;
    const bool theirs_too = values->Bool(key).value_or(false);
    if (theirs_too == said.value_or(false)) continue;
    DsBreak(broken,
            {.rule = absl::StrCat("DeepSpeed's ", key, " = TrainingArguments' ", theirs),
             .numbers = theirs_too ? "true is not false" : "false is not true",
             .theirs = absl::StrCat("Please correct the following DeepSpeed config values "
                                    "that mismatch TrainingArguments values: - ds ",
                                    key, "=", theirs_too ? "True" : "False", " vs hf ", theirs, "|",
                                    theirs, "_full_eval=", theirs_too ? "False" : "True"),
             .hint = absl::StrCat("\"enabled\": \"auto\", or --", theirs,
                                  theirs_too ? " true" : " false"),
             .where = values->Where(key)});
  }
  values->Fill("amp.enabled", false);
}

std::optional<int64_t> DataDegree(const Facts& facts) {
  const int64_t product = facts.degrees.tensor * facts.degrees.pipe * facts.degrees.context;
  if (!facts.devices || product < 1 || *facts.devices % product != 0) return std::nullopt;
  return *facts.devices / product;
}

void ReadZero(DeepSpeedValues* values, Facts* facts, int64_t stage) {
  // "zero_optimization": true is stage 1, of old releases.
  if (const nlohmann::json* old = values->Value("zero_optimization"); old != nullptr) {
    if (old->is_boolean() && old->get<bool>()) stage = 1;
  }
  stage = values->Int("zero_optimization.stage").value_or(stage);
  if (stage < 0 || stage > 3) {
    DsBreak(facts, {.rule = "zero_optimization.stage is one of 0, 1, 2, 3",
                    .numbers = absl::StrCat(stage),
                    .theirs = "Input should be 0, 1, 2 or 3",
                    .hint = "\"stage\": 3",
                    .where = values->Where("zero_optimization.stage")});
    return;
  }
  static constexpr const char* kWhat[] = {"none", "states", "gradients", "weights"};
  ShardingFacts& sharding = facts->sharding;
  sharding = {};
  sharding.what = kWhat[stage];
  if (stage > 0) {
    sharding.over = {"data"};
    if (facts->degrees.context > 1) sharding.over.push_back("context");
    sharding.gather = stage == 3 ? "each use" : "once a step";
  }
  sharding.reduce = stage >= 2 ? "each micro-batch" : "once a step";
  for (const char* key : {"zero_optimization.prefetch_bucket_size",
                          "zero_optimization.stage3_prefetch_bucket_size"}) {
    if (stage == 3 && !values->IsAuto(key) && values->Int(key)) {
      sharding.prefetch_elements = values->Int(key);
    }
  }
  ReadDsGroups(values, stage, facts);
  ReadDsOffload(values, stage, facts);
  const double ratio = values->Number("zero_optimization.offload_optimizer.ratio").value_or(1);
  if (ratio < 1) {
    values->Put("zero_optimization.offload_optimizer.ratio", List::kNoEquivalent,
                "a part of the states stays on the device; here all rest on the host");
    if (stage != 3) {
      DsBreak(facts, {.rule = "offload_optimizer.ratio below 1 needs ZeRO 3",
                      .numbers = absl::StrCat("ratio ", ratio, " with stage ", stage),
                      .theirs = "Partial offloading only supported for ZeRO Stage 3.",
                      .hint = "\"ratio\": 1.0, or \"stage\": 3",
                      .where = values->Where("zero_optimization.offload_optimizer.ratio")});
    }
  }
  // Activations rest on the host where the script checkpoints through DeepSpeed.
  if (values->Bool("activation_checkpointing.cpu_checkpointing").value_or(false)) {
    facts->offload.activations = true;
  }
}

void ReadDeepSpeedPrecision(DeepSpeedValues* values, Facts* facts) {
  const bool bf16 = values->Bool("bf16.enabled").value_or(false) ||
                    values->Bool("bfloat16.enabled").value_or(false);
  const bool fp16 = values->Bool("fp16.enabled").value_or(false);
  const double scale = values->Number("fp16.loss_scale").value_or(0);
  PrecisionFacts& precision = facts->precision;
  if (bf16 && fp16) {
    DsBreak(facts, {.rule = "bf16 and fp16 exclude each other",
                    .numbers = "bf16.enabled and fp16.enabled are both true",
                    .theirs = "bfloat16 and fp16 modes cannot be simultaneously enabled",
                    .hint = "\"fp16\": {\"enabled\": false}",
                    .where = values->Where("fp16.enabled")});
  }
  precision = {};
  if (bf16) {
    precision = {.compute = "bf16", .here = "bf16"};
  } else if (fp16) {
    precision = {.compute = scale > 0 ? absl::StrCat("fp16, loss scale ", scale)
                                      : "fp16, dynamic loss scale",
                 .here = "bf16"};
    values->Put("fp16.enabled", List::kNoEquivalent,
                "fp16 with loss scaling; here bf16, of as many bytes, which needs none");
  } else if (values->Bool("torch_autocast.enabled").value_or(false)) {
    const std::string type = DsLower(values->Text("torch_autocast.dtype").value_or("bfloat16"));
    precision = {.compute = type.find("float16") == 0 ? "fp16 (autocast)" : "bf16 (autocast)",
                 .here = "bf16"};
  }
  if (values->Bool("amp.enabled").value_or(false)) {
    precision = {.compute = "fp16 of Apex", .here = "bf16"};
    values->Put("amp.enabled", List::kNoEquivalent, "Apex: fp16 with loss scaling; here bf16");
  }
  const std::string kept = DsLower(values->Text("data_types.grad_accum_dtype").value_or(""));
  precision.gradients_in_bf16 = (bf16 || fp16) && kept != "fp32" && kept != "float32";
  for (const char* key :
       {"bf16.bf16_master_weights_and_grads", "fp16.fp16_master_weights_and_grads"}) {
    if (!values->Bool(key).value_or(false)) continue;
    precision.master = bf16 ? "bf16" : "fp16";
    values->Put(key, List::kNoEquivalent,
                "masters and gradients of 2 bytes: 4 bytes a parameter fewer than here");
  }
}

void ReadDeepSpeedDegrees(DeepSpeedValues* values, Facts* facts) {
  DegreeFacts& degrees = facts->degrees;
  const int64_t tensor = values->Int("tensor_parallel.autotp_size").value_or(0);
  if (tensor > 1) degrees.tensor = tensor;
  if (const auto nested = values->Int("tensor_parallel.tp.tp_size"); nested && *nested > 1) {
    degrees.tensor = *nested;
  }
  // DeepSpeed-Ulysses: positions are split, and heads within attention.
  const int64_t context = values->Int("sequence_parallel_size").value_or(1);
  if (context > 1) degrees.context = context;
  const bool experts = values->Bool("expert_parallel.enabled").value_or(false);
  const int64_t expert = values->Int("expert_parallel.autoep_size").value_or(1);
  if (experts && expert > 1) degrees.expert = expert;
  const std::optional<std::string> stages =
      values->Has("pipeline.stages") && !values->IsAuto("pipeline.stages")
          ? values->Text("pipeline.stages")
          : std::nullopt;
  if (stages) {
    const std::optional<int64_t> pipe = values->Int("pipeline.stages");
    if (pipe && *pipe > 1) degrees.pipe = *pipe;
  } else {
    values->Put("pipeline.stages", List::kNoEffect);
  }
}

}  // namespace oneflow::foreign
