// Optimizer, schedule and batch of DeepSpeed's JSON.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/nearest.h"
#include "tools/foreign/read/ds_config.h"

namespace oneflow::foreign {
namespace {

// DeepSpeed's optimizers, whatever the letters, and those of torch.optim by their names.
bool DsHasOptimizer(const std::string& type) {
  const std::string lower = absl::AsciiStrToLower(type);
  for (const char* own : {"adagrad", "adam", "adamw", "lamb", "onebitadam", "onebitlamb",
                          "zerooneadam", "muadam", "muadamw", "musgd", "lion", "muon", "cpu_adam",
                          "cpu_torch_adam", "sm3", "madgrad_wd", "sgd", "fusedadam"}) {
    if (lower == own) return true;
  }
  for (const char* theirs : {"Adadelta", "Adafactor", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam",
                             "RMSprop", "Rprop", "SGD", "SparseAdam"}) {
    if (type == theirs) return true;
  }
  return false;
}

// Arguments of Adam that it does not have.
void CheckDsAdam(DeepSpeedValues* values, Facts* facts) {
  constexpr std::string_view kPrefix = "optimizer.params.";
  const std::vector<std::string> known = {
      "lr",
      "betas",
      "eps",
      "weight_decay",
      "bias_correction",
      "adam_w_mode",
      "amsgrad",
      "set_grad_none",
      "fused",
      "torch_adam",
      "foreach",
      "capturable",
      "maximize",
      "fp32_optimizer_states",
      "max_grad_norm",
      "differentiable",
  };
  for (const Setting& setting : values->settings()->all()) {
    if (!setting.key.starts_with(kPrefix)) continue;
    const std::string name = setting.key.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = Nearest(name, known);
    facts->broken.push_back(
        {.rule = "no unknown key in optimizer.params",
         .numbers = setting.name,
         .theirs = absl::StrCat("__init__() got an unexpected keyword argument '", name, "'"),
         .hint = near.empty() ? "leave it out" : absl::StrCat("did you mean ", near, "?"),
         .where = setting.where});
  }
}

void ReadDsOptimizerSection(DeepSpeedValues* values, Facts* facts) {
  const std::optional<std::string> type = values->Text("optimizer.type");
  if (!type) return;
  OptimizerFacts& o = facts->optimizer;
  const std::string name = absl::AsciiStrToLower(*type);
  // Adam of DeepSpeed decays as AdamW does, unless adam_w_mode is false.
  o.name = name == "adam" ? "adamw" : name;
  o.learning_rate = values->Number("optimizer.params.lr").value_or(1e-3);
  o.beta1 = 0.9, o.beta2 = 0.999;
  if (const nlohmann::json* betas = values->Value("optimizer.params.betas");
      betas != nullptr && betas->is_array() && betas->size() == 2 && (*betas)[0].is_number() &&
      (*betas)[1].is_number()) {
    o.beta1 = (*betas)[0].get<double>(), o.beta2 = (*betas)[1].get<double>();
  }
  o.epsilon = values->Number("optimizer.params.eps").value_or(1e-8);
  o.weight_decay = values->Number("optimizer.params.weight_decay").value_or(0);
  if (!values->Bool("optimizer.params.adam_w_mode").value_or(true)) {
    o.name = "adam";
    values->Put("optimizer.params.adam_w_mode", List::kNoEquivalent,
                "weight decay is a part of the gradient; no byte or second");
  }
  if (o.name == "adamw" || o.name == "adam") return CheckDsAdam(values, facts);
  if (!DsHasOptimizer(*type)) {
    const std::string near =
        Nearest(name, {"adamw", "adam", "lamb", "lion", "muon", "adagrad", "onebitadam"});
    facts->broken.push_back(
        {.rule = "optimizer.type is one that DeepSpeed or torch.optim has",
         .numbers = *type,
         .theirs = absl::StrCat("module 'torch.optim' has no attribute '", *type, "'"),
         .hint = near == "adam"    ? "Adam"
                 : near == "adamw" ? "AdamW"
                 : near.empty()    ? "AdamW"
                                   : near,
         .where = values->Where("optimizer.type")});
  }
  const bool of_one_bit = name.starts_with("onebit") || name.starts_with("zeroone");
  values->Put("optimizer.type", List::kNoEquivalent,
              of_one_bit ? "gradients of one bit after the first steps; here all in full"
                         : "another optimizer; here AdamW, of 8 bytes of states a parameter");
  if (of_one_bit || name == "lamb" || name == "lion" || name == "muon") return;
  o.beta1.reset(), o.beta2.reset();
}

void ReadDsScheduler(DeepSpeedValues* values, Facts* facts) {
  const std::optional<std::string> type = values->Text("scheduler.type");
  if (!type) return;
  OptimizerFacts& o = facts->optimizer;
  const std::string name = absl::AsciiStrToLower(*type);
  const auto number = [&](const char* key) {
    return values->Number(absl::StrCat("scheduler.params.", key));
  };
  o.decay_steps.reset(), o.min_learning_rate.reset(), o.warmup_steps.reset();
  if (name == "onecycle" || name == "lrrangetest") {
    o.schedule = name;
    values->Put("scheduler.type", List::kNoEquivalent,
                "another course of the learning rate; no byte or second");
    if (const auto most = number("cycle_max_lr")) o.learning_rate = most;
    if (const auto least = number("cycle_min_lr")) o.min_learning_rate = least;
    if (const auto up = number("cycle_first_step_size")) {
      o.warmup_steps = static_cast<int64_t>(*up);
    }
    return;
  }
  if (name != "warmuplr" && name != "warmupdecaylr" && name != "warmupcosinelr") {
    facts->broken.push_back(
        {.rule = "scheduler.type is one that DeepSpeed has",
         .numbers = *type,
         .theirs = absl::StrCat("Could not find a scheduler named ", *type),
         .hint = "one of WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest",
         .where = values->Where("scheduler.type")});
    return;
  }
  o.schedule = name == "warmuplr" ? "constant" : name == "warmupdecaylr" ? "linear" : "cosine";
  o.warmup_steps = static_cast<int64_t>(number("warmup_num_steps").value_or(1000));
  if (const auto total = number("total_num_steps")) {
    const auto steps = static_cast<int64_t>(*total);
    if (name != "warmuplr") o.decay_steps = steps;
    if (!o.steps) o.steps = steps;
  }
  if (name != "warmuplr" && !values->Has("scheduler.params.total_num_steps")) {
    facts->broken.push_back(
        {.rule = absl::StrCat(*type, " needs total_num_steps"),
         .numbers = "there is none",
         .theirs = "__init__() missing 1 required positional argument: 'total_num_steps'",
         .hint = "\"total_num_steps\": the steps of the run",
         .where = values->Where("scheduler.type")});
  }
  const std::optional<double> first = number("warmup_min_lr");
  const std::optional<double> most = number("warmup_max_lr");
  if (most) {
    o.learning_rate = most;
  } else if (name != "warmupcosinelr" && !values->Has("scheduler.params.warmup_max_lr")) {
    o.learning_rate = 1e-3;  // The schedule sets the rate, whatever the optimizer's.
  }
  number("warmup_min_ratio");
  const std::optional<double> last = number("cos_min_ratio");
  if (name == "warmupdecaylr") o.min_learning_rate = first.value_or(0);
  if (name == "warmupcosinelr" && o.learning_rate) {
    o.min_learning_rate = last.value_or(0.0001) * *o.learning_rate;
  }
  const std::string course = values->Text("scheduler.params.warmup_type").value_or("log");
  if (course != "linear" && values->Has("scheduler.params.warmup_type")) {
    values->Put("scheduler.params.warmup_type", List::kNoEquivalent,
                "the warm-up is a logarithm, here linear; no byte or second");
  }
}

}  // namespace

void ReadDeepSpeedOptimizer(DeepSpeedValues* values, Facts* facts) {
  ReadDsOptimizerSection(values, facts);
  ReadDsScheduler(values, facts);
  if (const auto clip = values->Number("gradient_clipping")) {
    facts->optimizer.clip = clip;
  } else if (const auto of_optimizer = values->Number("optimizer.params.max_grad_norm")) {
    facts->optimizer.clip = of_optimizer;
  } else if (!values->Has("gradient_clipping")) {
    facts->optimizer.clip = 1;
  }
}

void CompleteBatch(const BatchKeys& keys, const std::string& where,
                   std::optional<int64_t> accumulation, Facts* facts) {
  BatchFacts& batch = facts->batch;
  const std::optional<int64_t> data = DataDegree(*facts);
  batch.micro_batches = accumulation;
  if (!batch.global && !batch.micro) {
    if (accumulation) batch.micro_batches = accumulation;
    return;
  }
  if (!batch.global) {
    if (!batch.micro_batches) batch.micro_batches = 1;
    if (data) batch.global = *batch.micro * *batch.micro_batches * *data;
    return;
  }
  if (!data) return;  // Then two of the three do not give the third.
  if (!batch.micro) {
    if (!batch.micro_batches) batch.micro_batches = 1;
    batch.micro = *batch.global / *data / *batch.micro_batches;
  } else if (!batch.micro_batches) {
    batch.micro_batches = *batch.global / *batch.micro / *data;
  }
  const int64_t micro = *batch.micro, times = *batch.micro_batches;
  const int64_t product = micro * times * *data;
  if (product == *batch.global && product > 0) return;
  std::vector<std::string> mends;
  const int64_t unit = std::max<int64_t>(micro, 1) * *data;
  const int64_t below = *batch.global / unit;
  if (product > 0) {
    mends.push_back(absl::StrCat(keys.global, " ", product, " with ", times, " micro-batches"));
  }
  for (const int64_t m : {below, below + 1}) {
    if (m < 1 || m == times) continue;
    mends.push_back(absl::StrCat(m * unit, " with ", m));
  }
  if (times > 0 && micro > 0 && *batch.global % (micro * times) == 0) {
    mends.push_back(absl::StrCat("data ", *batch.global / (micro * times), " in place of ", *data));
  }
  std::string hint;
  for (const std::string& one : mends) absl::StrAppend(&hint, hint.empty() ? "" : ", or ", one);
  facts->broken.push_back(
      {.rule = absl::StrCat(keys.global, " = ", keys.micro, " x ", keys.accumulation, " x ",
                            facts->degrees.tensor * facts->degrees.pipe * facts->degrees.context > 1
                                ? "data"
                                : "GPUs"),
       .numbers = absl::StrCat(*batch.global, " is not ", micro, " x ", times, " x ", *data, " = ",
                               product),
       .theirs = absl::StrCat("Check batch related parameters. train_batch_size is not equal to "
                              "micro_batch_per_gpu * gradient_acc_step * world_size ",
                              *batch.global, " != ", micro, " * ", times, " * ", *data),
       .hint = hint,
       .where = where});
}

bool ReadDeepSpeedBatch(DeepSpeedValues* values, Facts* facts) {
  const auto read = [&](const char* key, std::optional<int64_t>* into) {
    const std::optional<int64_t> said = values->Int(key);
    if (said && *said < 1) {
      values->settings()->Refuse(key, "is no number of sequences", "give 1 or more");
      return;
    }
    if (said) *into = said;
  };
  read("train_batch_size", &facts->batch.global);
  read("train_micro_batch_size_per_gpu", &facts->batch.micro);
  std::optional<int64_t> accumulation = facts->batch.micro_batches;
  read("gradient_accumulation_steps", &accumulation);
  const size_t before = facts->broken.size();
  CompleteBatch({}, values->Where("train_batch_size"), accumulation, facts);
  if (!facts->batch.global && !facts->batch.micro) {
    facts->questions.push_back({"how many sequences a step takes", "--batch=N"});
  }
  return facts->broken.size() > before;
}

void CompleteDeepSpeedDegrees(bool batch_is_broken, Facts* facts) {
  const SharedWords words = {.tensor = "autotp_size",
                             .pipe = "pipe_parallel_size",
                             .context = "sequence_parallel_size",
                             .global = "train_batch_size",
                             .micro = "train_micro_batch_size_per_gpu"};
  const BatchFacts batch = facts->batch;
  if (batch_is_broken) facts->batch = {};
  CompleteDegrees(words, facts);
  if (batch_is_broken) facts->batch = batch;
}

void SortDeepSpeed(DeepSpeedValues* values, Facts* facts) {
  Settings* const settings = values->settings();
  settings->Sort(DeepSpeedLists());
  for (const Setting& setting : settings->all()) {
    if (setting.list != List::kUnknown) continue;
    const std::string section = setting.key.substr(0, setting.key.find('.'));
    bool refuses = false;
    for (const char* strict :
         {"zero_optimization", "fp16", "bf16", "bfloat16", "tensorboard", "wandb", "csv_monitor",
          "comet", "hybrid_engine", "compile", "tensor_parallel", "comms_logger"}) {
      refuses = refuses || (section == strict && setting.key.size() > section.size());
    }
    if (!refuses) continue;
    facts->broken.push_back(
        {.rule = absl::StrCat("no unknown key in ", section),
         .numbers = setting.name,
         .theirs = absl::StrCat(setting.key.substr(setting.key.rfind('.') + 1),
                                " Extra inputs are not permitted [type=extra_forbidden]"),
         .hint = setting.note.empty() ? "leave it out" : setting.note,
         .where = setting.where});
  }
}

}  // namespace oneflow::foreign
