// The optimizer and its schedule of Megatron's flags. Samples become steps of the batch.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

std::string FindSchedule(const std::string& style) {
  if (style == "linear" || style == "cosine" || style == "constant") return style;
  if (style == "CosineAnnealing") return "cosine";
  return style;
}

}  // namespace

void ReadMegatronOptimizer(Settings& settings, const MegatronForm& form, Facts* facts) {
  OptimizerFacts& optimizer = facts->optimizer;
  const std::optional<int64_t> batch = settings.Int("global_batch_size");
  const auto steps_of = [&](const char* key) -> std::optional<int64_t> {
    const std::optional<int64_t> samples = settings.Int(key);
    if (!samples || *samples == 0 || !batch || *batch < 1) return std::nullopt;
    return *samples / *batch;
  };
  const std::string name = absl::AsciiStrToLower(settings.Text("optimizer").value_or("adam"));
  optimizer.name = name == "adam" || name == "adamw" ? "adamw" : name;
  if (optimizer.name != "adamw") {
    settings.Put("optimizer", List::kNoEquivalent,
                 absl::StrCat("the optimizer ", name,
                              ": here AdamW, of 8 bytes of states a "
                              "parameter beside 4 of master weights"));
  }
  optimizer.learning_rate = settings.Number("lr");
  optimizer.min_learning_rate = settings.Number("min_lr").value_or(0);
  optimizer.beta1 = settings.Number("adam_beta1").value_or(0.9);
  optimizer.beta2 = settings.Number("adam_beta2").value_or(form.beta2);
  optimizer.epsilon = settings.Number("adam_eps").value_or(1e-8);
  optimizer.weight_decay = settings.Number("weight_decay").value_or(form.weight_decay);
  optimizer.clip = settings.Number("clip_grad").value_or(form.clip);
  const std::string style = settings.Text("lr_decay_style").value_or(form.schedule);
  optimizer.schedule = FindSchedule(style);
  if (optimizer.schedule == style && style != "linear" && style != "cosine" &&
      style != "constant") {
    settings.Put("lr_decay_style", List::kNoEquivalent,
                 absl::StrCat("a learning rate that decays by ", style,
                              ": no bytes and no time; here constant, linear or cosine"));
  }
  const std::optional<int64_t> iterations = settings.Int("train_iters");
  const std::optional<int64_t> of_samples = steps_of("train_samples");
  optimizer.steps = iterations ? iterations : of_samples;
  const std::optional<int64_t> decay = settings.Int("lr_decay_iters");
  const std::optional<int64_t> decay_samples = steps_of("lr_decay_samples");
  optimizer.decay_steps = decay ? decay : decay_samples ? decay_samples : optimizer.steps;
  const std::optional<int64_t> warmup = settings.Int("lr_warmup_iters");
  const std::optional<int64_t> warmup_samples = steps_of("lr_warmup_samples");
  const std::optional<double> share = settings.Number("lr_warmup_fraction");
  settings.Number("lr_warmup_init");
  optimizer.warmup_steps = warmup.value_or(0);
  if (warmup_samples) optimizer.warmup_steps = warmup_samples;
  if (share && optimizer.decay_steps) {
    optimizer.warmup_steps =
        static_cast<int64_t>(std::llround(*share * static_cast<double>(*optimizer.decay_steps)));
  }
  if (const Setting* init = settings.Find("lr_warmup_init");
      init != nullptr && init->ValueText() != "0" && init->ValueText() != "0.0") {
    settings.Put("lr_warmup_init", List::kNoEquivalent,
                 "warm-up from above 0: here from 0; no bytes and no time");
  }
}

}  // namespace oneflow::foreign
