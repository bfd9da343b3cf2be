// Settings of Bridge and NeMo by Megatron's keys, and what their classes and presets set.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/bridge_reading.h"

namespace oneflow::foreign {

// Of places with one key the one of the highest rank decides; of switches one that is on.
void BridgeReading::Rename() {
  std::vector<std::pair<BridgeKey, const Setting*>> chosen;
  for (const Setting& setting : locations_.all()) {
    BridgeKey key = KeyOfBridgePlace(kind_, setting.key);
    if (setting.value.is_null() && !setting.is_switch) key.rank -= 100;
    if (key.key.starts_with("use_") && absl::AsciiStrToLower(setting.ValueText()) == "true") {
      key.rank += 100;
    }
    const auto same = std::find_if(chosen.begin(), chosen.end(),
                                   [&](const auto& c) { return c.first.key == key.key; });
    if (same == chosen.end()) {
      chosen.emplace_back(key, &setting);
      continue;
    }
    const Setting* second = &setting;
    if (key.rank > same->first.rank) {
      second = same->second;
      *same = {key, &setting};
    }
    seconds_.push_back(*second);
    seconds_.back().key = key.key;
  }
  for (const auto& [key, setting] : chosen) {
    Setting renamed = *setting;
    renamed.key = key.key;
    // What nothing resolves is as if it were not said.
    if (renamed.value.is_string() && renamed.ValueText().find("${") != std::string::npos) {
      renamed.value = nullptr;
    }
    keys_.Add(std::move(renamed));
  }
}

void BridgeReading::RenameOptimizer(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower.find("distributed") != std::string::npos || lower.find("mcore") != std::string::npos) {
    Unsaid("use_distributed_optimizer", lower.find("dist") != std::string::npos);
  }
  if (lower.find("adam") != std::string::npos || lower.starts_with("mcore")) {
    keys_.Set("optimizer", "adam");
  }
}

void BridgeReading::RenameNemo1() {
  if (const Setting* name = keys_.Find("optimizer")) RenameOptimizer(name->ValueText());
  if (const Setting* betas = locations_.Find("model.optim.betas");
      betas != nullptr && betas->value.is_array() && betas->value.size() == 2) {
    Unsaid("adam_beta1", betas->value[0]);
    Unsaid("adam_beta2", betas->value[1]);
    keys_.Put("model.optim.betas", List::kTaken);
  }
  if (const Setting* type = locations_.Find("model.tokenizer.library"); type != nullptr) {
    const std::string library = type->ValueText();
    if (library == "huggingface") Unsaid("tokenizer_type", "HuggingFaceTokenizer");
    if (library == "megatron") Unsaid("tokenizer_type", Text("model.tokenizer.type"));
  }
  const std::string schedule = Text("model.optim.sched.name");
  if (schedule == "CosineAnnealing") keys_.Set("lr_decay_style", "cosine");
  if (schedule == "WarmupAnnealing" || schedule == "PolynomialDecayAnnealing") {
    keys_.Set("lr_decay_style", "linear");
  }
  if (schedule == "WarmupPolicy") keys_.Set("lr_decay_style", "constant");
  const std::string activation = Text("model.activation");
  if (activation.starts_with("fast-")) keys_.Set("activation", activation.substr(5));
  if (Text("model.fsdp") == "true" || Text("model.fsdp") == "True") {
    const std::string strategy = Text("model.fsdp_sharding_strategy");
    Unsaid("use_megatron_fsdp", true);
    Unsaid("data_parallel_sharding_strategy",
           strategy.empty() || strategy == "full" || strategy == "hybrid" ? "optim_grads_params"
                                                                          : "optim_grads");
    keys_.Put("fsdp", List::kTaken);
    keys_.Put("fsdp_sharding_strategy", List::kTaken);
  }
}

// NeMo's steps at the least rate behind a decay: the decay ends so much earlier.
void BridgeReading::AddHold() {
  if (is_bridge()) return;
  const std::string location = kind_ == BridgeKind::kNemo1 ? "model.optim.sched.constant_steps"
                                                           : "optim.lr_scheduler.constant_steps";
  int64_t hold = 0, steps = 0;
  const Setting* decay = keys_.Find("lr_decay_iters");
  const std::string end =
      decay == nullptr || decay->value.is_null() ? Text("trainer.max_steps") : decay->ValueText();
  if (!absl::SimpleAtoi(Text(location.c_str()), &hold) || !absl::SimpleAtoi(end, &steps) ||
      hold < 0 || hold >= steps) {
    return;
  }
  Unsaid("lr_decay_iters", steps - hold);
  keys_.Set("lr_decay_iters", steps - hold);
  keys_.Put(location, List::kTaken);
}

// "bf16_mixed", "bf16-mixed", "bf16_with_fp8_current_scaling_mixed", 16, "32-true", ...
void BridgeReading::AddPrecision() {
  const char* location = is_bridge()                           ? "mixed_precision"
                         : kind_ == BridgeKind::kNemo1         ? "trainer.precision"
                         : locations_.Has("trainer.plugins")   ? "trainer.plugins"
                         : locations_.Has("trainer.precision") ? "trainer.precision"
                                                               : "trainer.plugins.precision";
  const std::string name = absl::AsciiStrToLower(Text(location));
  const std::string key = KeyOfBridgePlace(kind_, location).key;
  if (name.empty()) return;
  keys_.Put(key, List::kTaken);
  const bool is_bf16 = name.find("bf16") != std::string::npos;
  const bool is_fp16 = !is_bf16 && name.find("16") != std::string::npos;
  // It beats what the model says.
  for (const auto& [precision, is_on] : {std::pair("bf16", is_bf16), {"fp16", is_fp16}}) {
    if (keys_.Has(precision)) {
      keys_.Set(precision, is_on);
    } else if (is_on) {
      Unsaid(precision, true);
    }
  }
  const bool is_fp8 = name.find("fp8") != std::string::npos;
  const bool is_fp4 = name.find("fp4") != std::string::npos;
  if (is_fp8) {
    const bool is_mx = name.find("mxfp8") != std::string::npos;
    Unsaid("fp8", is_mx ? "e4m3" : "hybrid");
    if (keys_.Find("fp8")->value.is_null()) keys_.Set("fp8", is_mx ? "e4m3" : "hybrid");
    Unsaid("fp8_recipe", is_mx                                          ? "mxfp8"
                         : name.find("current") != std::string::npos    ? "tensorwise"
                         : name.find("subchannel") != std::string::npos ? "blockwise"
                                                                        : "delayed");
  }
  if (is_fp8 || is_fp4 || is_fp16) {
    keys_.Put(key, List::kNoEquivalent,
              is_fp16 && !is_fp8
                  ? "fp16 and its loss scaling: here bf16, of the same bytes and time"
              : is_fp8 ? "products in FP8: here in bf16, which take up to twice the time"
                       : "products in FP4: here in bf16, which take up to four times the time");
  }
}

void BridgeReading::AddDefaults() {
  const std::string target =
      Text("model._target_").empty() || !Text("model.config._target_").empty()
          ? Text("model.config._target_")
          : Text("model._target_");
  const std::string words = BridgeClassDefaults(target);
  // Later words of a class beat earlier ones, the user's beat both.
  Settings of_class("megatron-bridge");
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    of_class.Add({.name = pair.first, .key = pair.first, .value = pair.second});
  }
  const bool has_activation = keys_.Has("activation_func._target_");
  for (const Setting& setting : of_class.all()) {
    if (setting.key == "activation_func" && has_activation) continue;
    Unsaid(setting.key, setting.value);
  }
  for (const char* tag : {"_target_", "config._target_", "model._target_"}) {
    keys_.Put(tag, List::kTaken);
  }
  // A width of four hidden sizes, gated or not.
  const Setting* hidden = keys_.Find("hidden_size");
  const Setting* ffn = keys_.Find("ffn_hidden_size");
  int64_t width = 0;
  if (hidden != nullptr && absl::SimpleAtoi(hidden->ValueText(), &width)) {
    if (ffn == nullptr) {
      Unsaid("ffn_hidden_size", 4 * width);
    } else if (ffn->value.is_null()) {
      keys_.Put("ffn_hidden_size", List::kTaken);
      keys_.Set("ffn_hidden_size", 4 * width);
    }
  }
}

}  // namespace oneflow::foreign
