// What DeepSpeed and accelerate share: the Trainer of Hugging Face, by its example run_clm.py.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/text.h"
#include "training/hugging_face/model_graph.h"

namespace oneflow::foreign {
namespace {

HuggingFaceConfig ConfigFor(const Job& job) {
  HuggingFaceConfig config = DescribeModelGraph(BuildModel(job.model)).value();
  config.dtype = "f32";  // of the weights at rest: the master
  return config;
}

// The schedule, and its further numbers as JSON; "" of none.
struct TrainerSchedule {
  std::string name, numbers;
};
TrainerSchedule FindTrainerSchedule(const proto::Optimizer& optimizer) {
  const double least = optimizer.min_learning_rate();
  switch (optimizer.lr_schedule()) {
    case proto::Optimizer::COSINE:
      if (least == 0) return {"cosine", ""};
      return {"cosine_with_min_lr", absl::StrCat(R"({"min_lr": )", FloatText(least), "}")};
    case proto::Optimizer::LINEAR:
      if (least == 0) return {"linear", ""};
      return {"polynomial", absl::StrCat(R"({"lr_end": )", FloatText(least), R"(, "power": 1.0})")};
    default: return {"constant_with_warmup", ""};
  }
}

}  // namespace

std::vector<std::string> TrainingArguments(const Job& job, const AxisDegrees& degrees,
                                           std::vector<std::string> extra) {
  const proto::Recipe& recipe = job.recipe;
  const proto::Optimizer& optimizer = job.optimizer;
  const TrainerSchedule schedule = FindTrainerSchedule(optimizer);
  std::vector<std::string> words;
  const auto add = [&](const std::string& name, const auto& value) {
    words.push_back("--" + name);
    words.push_back(absl::StrCat(value));
  };
  add("model_type", ConfigFor(job).model_type);
  add("config_name", "./model");
  add("tokenizer_name", "${TOKENIZER}");
  add("train_file", "${TRAIN_FILE}");
  add("do_train", "true");
  add("block_size", job.model.sequence());
  add("per_device_train_batch_size", FindMicroBatch(recipe, degrees).value());
  add("gradient_accumulation_steps", recipe.micro_batches());
  add("max_steps", job.run.steps());
  add("optim", "adamw_torch_fused");
  add("learning_rate", ExactText(optimizer.learning_rate()));
  add("lr_scheduler_type", schedule.name);
  if (!schedule.numbers.empty()) add("lr_scheduler_kwargs", schedule.numbers);
  add("warmup_steps", optimizer.warmup_steps());
  add("adam_beta1", ExactText(optimizer.beta1()));
  add("adam_beta2", ExactText(optimizer.beta2()));
  add("adam_epsilon", ExactText(optimizer.epsilon()));
  add("weight_decay", ExactText(optimizer.weight_decay()));
  add("max_grad_norm", ExactText(optimizer.clip()));
  if (recipe.precision() == proto::BF16) add("bf16", "true");
  add("seed", job.run.seed());
  words.insert(words.end(), extra.begin(), extra.end());
  add("logging_steps", 1);
  add("output_dir", "output");
  return words;
}

EmittedFile ModelConfigFile(const Job& job) {
  return {"model/config.json", ConfigText(ConfigFor(job))};
}

std::string BlockClass(const Job& job) {
  const std::string type = ConfigFor(job).model_type;
  if (type == "gpt2") return "GPT2Block";
  if (type == "qwen3_moe") return "Qwen3MoeDecoderLayer";
  std::string name = type;
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name + "DecoderLayer";
}

}  // namespace oneflow::foreign
