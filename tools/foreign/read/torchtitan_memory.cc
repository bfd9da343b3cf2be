// What torchtitan keeps and recomputes: shards, recompute, precision.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_facts.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {

void TitanFacts::ReadSharding() {
  const std::string policy = Text("parallelism.fsdp_reshard_after_forward", "default");
  const DegreeFacts& degrees = facts_.degrees;
  ShardingFacts& sharding = facts_.sharding;
  if (policy != "default" && policy != "always" && policy != "never") {
    Break("fsdp_reshard_after_forward is default, always or never", policy,
          absl::StrCat("Invalid reshard_after_forward_policy: ", policy, "."),
          "--parallelism.fsdp_reshard_after_forward default",
          "parallelism.fsdp_reshard_after_forward");
  }
  // Each backward reduces its gradients, but those within a run of the pipe.
  const bool has_pipe = degrees.pipe > 1;
  sharding.reduce = has_pipe ? "once a step" : "each micro-batch";
  if (shard_ == 1 && degrees.context == 1) {
    sharding.ways = 1;
    if (replicate_ == 1) sharding.reduce = "once a step";
    return;
  }
  sharding.what = "weights";
  if (shard_ != 1) sharding.over.push_back("data");
  if (degrees.context > 1) sharding.over.push_back("context");
  if (shard_ > 0) sharding.ways = shard_ * degrees.context;
  sharding.replicas = replicate_;
  const bool is_resharded = policy == "always" || (policy == "default" && !has_pipe);
  sharding.gather = is_resharded ? "each use" : has_pipe ? "once a step" : "each micro-batch";
  if (has_pipe) {
    sharding.note =
        "gradients of a stage stay in one piece on each device until its last micro-batch";
  }
}

void TitanFacts::ReadRecompute() {
  RecomputeFacts& recompute = facts_.recompute;
  std::string mode = Text("activation_checkpoint.mode", "selective");
  std::replace(mode.begin(), mode.end(), '-', '_');
  const std::string option =
      Text("activation_checkpoint.selective_ac_option", titan_.is_2026 ? "op" : "2");
  const std::optional<double> budget = Number("activation_checkpoint.memory_budget");
  // What the JSON of later 2026 has of its policy are the keys of its class, or null.
  if (titan_.root != nullptr && titan_.is_2026 && !given_.Has("activation_checkpoint.mode") &&
      titan_.root->contains("activation_checkpoint")) {
    const nlohmann::ordered_json& policy = (*titan_.root)["activation_checkpoint"];
    mode = policy.is_null()                                       ? "none"
           : policy.contains("memory_budget")                     ? "memory_budget"
           : policy.contains("force_recompute_mm_shapes_by_fqns") ? "selective"
                                                                  : "full";
  }
  if (mode == "none" || mode.empty()) return;
  recompute.blocks = "all";
  recompute.gathers_again = true;
  int64_t each = 0;
  if (mode == "full" || (mode == "selective" && (option == "0" || option == "1"))) {
    recompute.what = "block";
    recompute.here = "full";
  } else if (mode == "selective" && option == "op") {
    recompute.what = "cheap ops: all but products, of which every second is made again";
    recompute.here = "selective";
  } else if (mode == "selective" && absl::SimpleAtoi(option, &each) && each > 1) {
    // torchtitan counts the blocks of a rank; the last of each run of `each` is wrapped.
    recompute.what = "block";
    recompute.blocks = absl::StrCat("one of ", each);
    recompute.is_exact = false;
    std::vector<int64_t> counts;
    if (facts_.schedule.stage_layers.size() > 1) {
      for (const int64_t blocks : facts_.schedule.stage_layers) counts.push_back(blocks / each);
    } else if (facts_.model.model) {
      counts.push_back(facts_.model.model->layers() / each);
    }
    if (std::equal(counts.begin() + !counts.empty(), counts.end(), counts.begin())) {
      counts.resize(std::min<size_t>(1, counts.size()));
    }
    recompute.here = counts.empty() ? "full" : absl::StrCat("full:", absl::StrJoin(counts, "/"));
  } else if (mode == "memory_budget") {
    const double share = budget.value_or(0.5);
    recompute.what = absl::StrCat("what a solver chooses for ", share,
                                  " of the bytes between full and no recompute");
    recompute.here = share <= 0 ? "full" : share >= 1 ? "none" : "selective";
    recompute.is_exact = share <= 0;
    recompute.gathers_again = share < 1;
    given_.Put("activation_checkpoint.memory_budget", List::kNoEquivalent,
               "a solver's choice by ops: bytes and time lie between full and none");
  } else {
    Break("recompute is none, full, selective (op or a number) or memory_budget",
          absl::StrCat(mode, mode == "selective" ? absl::StrCat(" ", option) : ""),
          mode == "selective"
              ? absl::StrCat("Invalid selective AC option: ", option,
                             ". Valid options: 'op' or a positive int "
                             "representing layer frequency")
              : absl::StrCat("Invalid AC mode: ", mode, ". Valid modes: ('full', 'selective')"),
          "--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option op",
          "activation_checkpoint.mode");
  }
}

void TitanFacts::ReadPrecision() {
  const auto short_name = [](const std::string& name) -> std::string {
    if (name == "bfloat16") return "bf16";
    if (name == "float32") return "f32";
    if (name == "float16") return "f16";
    return name;
  };
  PrecisionFacts& precision = facts_.precision;
  const std::string param = short_name(Text("training.mixed_precision_param", "bfloat16"));
  const std::string reduce = short_name(Text("training.mixed_precision_reduce", "float32"));
  const std::string type = short_name(Text("training.dtype", "float32"));
  precision.compute = type == "bf16" ? "bf16" : param;
  precision.master = type;
  precision.here = precision.compute == "bf16" ? "bf16" : "f32";
  precision.gradients_in_bf16 = reduce == "bf16" || type == "bf16";
  if (type == "bf16") {
    given_.Put("training.dtype", List::kNoEquivalent,
               "weights, gradients and states are all in bf16: 8 bytes a parameter, not 16");
  }
  // FSDP casts the weights; where nothing is split, only plain data parallelism has autocast.
  const DegreeFacts& degrees = facts_.degrees;
  if (!titan_.is_2026 && shard_ == 1 && degrees.context == 1 &&
      (degrees.tensor > 1 || degrees.pipe > 1) && precision.compute != precision.master) {
    precision.compute = precision.here = precision.master;
    given_.Put("training.mixed_precision_param", List::kTaken,
               "acts only with FSDP or plain data parallelism: this run computes in f32");
  }
  if (!Bool("training.enable_loss_parallel", true)) {
    given_.Put("training.enable_loss_parallel", List::kNoEquivalent,
               "the logits are gathered over the tensor axis: tensor times their bytes");
  }
  ReadConverters();
}

void TitanFacts::ReadConverters() {
  std::vector<std::string> names;
  const nlohmann::json* value = given_.Value("model.converters");
  if (value == nullptr) value = titan_.named.Value("model.converters");
  if (value != nullptr && value->is_array()) {
    for (const nlohmann::json& name : *value) {
      names.push_back(name.is_string() ? name.get<std::string>() : "unknown");
    }
  } else if (value != nullptr && value->is_string()) {
    names = absl::StrSplit(value->get<std::string>(), ',', absl::SkipEmpty());
  }
  // The JSON of 2026 has an object for each.
  if (titan_.root != nullptr && titan_.root->contains("model_converters") &&
      (*titan_.root)["model_converters"].contains("converters")) {
    for (const nlohmann::ordered_json& object : (*titan_.root)["model_converters"]["converters"]) {
      const bool has_filter = object.contains("filter_fqns") || object.contains("fqns");
      const bool is_mx = object.contains("recipe_name") && object["recipe_name"].is_string() &&
                         object["recipe_name"].get<std::string>().find("mx") != std::string::npos;
      if (has_filter) names.push_back(is_mx ? "mx" : "float8");
    }
  }
  const bool is_on_by_flag = Bool("quantize.linear.float8.enable_float8_linear", false);
  // "dynamic" or "delayed", in 2024.
  const bool is_on_by_word = !Text("training.fp8_linear", "").empty();
  bool has_float8 = is_on_by_flag || is_on_by_word, has_mx = false, has_other = false;
  for (const std::string& name : names) {
    const std::string lower = absl::AsciiStrToLower(name);
    if (lower.find("float8") != std::string::npos) {
      has_float8 = true;
    } else if (lower.find("mx") != std::string::npos) {
      has_mx = true;
    } else {
      has_other = true;
    }
  }
  given_.Put("training.fp8_linear", is_on_by_word ? List::kNoEquivalent : List::kDefault,
             is_on_by_word ? "products in FP8: less time, bytes as in bf16" : "");
  given_.Put("quantize.linear.float8.enable_float8_linear",
             is_on_by_flag ? List::kNoEquivalent : List::kDefault,
             is_on_by_flag ? "products in FP8: less time, bytes as in bf16" : "");
  if (names.empty()) given_.Put("model.converters", List::kDefault);
  const bool is_fp8 = has_float8 || has_mx;
  if (is_fp8) {
    facts_.precision.compute =
        absl::StrCat(has_mx ? "mxfp8" : "fp8", " in products, bf16 elsewhere");
  }
  if (!names.empty()) {
    given_.Put("model.converters", List::kNoEquivalent,
               is_fp8      ? "products in FP8: less time, bytes as in bf16"
               : has_other ? "layers are replaced by others, which are not known here"
                           : "");
  }
  const std::vector<std::string> keys = absl::StrSplit(ToAbsl(TitanQuantizeKeys()), ' ');
  for (const std::string& key : keys) {
    const bool acts = key.find(".mx.") == std::string::npos ? has_float8 : has_mx;
    const bool is_gather = key.ends_with("enable_fsdp_float8_all_gather");
    const Setting* setting = given_.Find(key);
    const bool is_off =
        setting != nullptr && absl::AsciiStrToLower(setting->ValueText()) == "false";
    if (setting == nullptr) {
      given_.Put(key, List::kNoEffect);  // known, if misspelt
    } else if (!acts || is_off) {
      given_.Put(key, acts ? List::kDefault : List::kNoEffect);
    } else {
      given_.Put(
          key, List::kNoEquivalent,
          is_gather ? "weights are gathered in FP8: half the bytes of bf16" : "products in FP8");
    }
  }
}

}  // namespace oneflow::foreign
