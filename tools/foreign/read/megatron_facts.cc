#include "tools/foreign/read/megatron_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow::foreign {
namespace {

// The degrees by the names of their settings.
constexpr std::pair<const char*, const char*> kDegreeKeys[] = {
    {"tensor_model_parallel_size", "tensor"},
    {"pipeline_model_parallel_size", "pipe"},
    {"context_parallel_size", "context"},
    {"expert_model_parallel_size", "expert"}};

// Settings that the system does not know: it stops there.
void RefuseUnknown(const MegatronForm& form, Facts* facts) {
  if (form.refuses_unknown.empty()) return;
  for (const Setting& setting : facts->settings) {
    if (setting.list != List::kUnknown) continue;
    const std::string value = setting.ValueText();
    std::string hint = setting.note.empty() ? "leave it out" : setting.note;
    for (const auto& [key, degree] : kDegreeKeys) {
      std::string flag = key;
      std::replace(flag.begin(), flag.end(), '_', '-');
      if (setting.note.find(key) == std::string::npos &&
          setting.note.find(flag) == std::string::npos) {
        continue;
      }
      facts->undecided.emplace_back(degree);
      hint = absl::StrCat("--", flag, value.empty() ? "" : " ", value);
    }
    facts->broken.push_back({.rule = "no unknown flag",
                             .numbers = setting.name,
                             .theirs = absl::StrCat(form.refuses_unknown, ": ", setting.name,
                                                    value.empty() ? "" : " ", value),
                             .hint = hint,
                             .where = setting.where});
  }
}

}  // namespace

absl::Status FillMegatronFacts(Settings& settings, const MegatronForm& form,
                               const ForeignInput& input, std::span<const ListedKeys> more,
                               Facts* facts) {
  const auto degree = [&](const char* key) {
    const int64_t value = settings.Int(key).value_or(1);
    if (value < 1) settings.Refuse(key, "is no degree", "write 1 or more");
    return std::max<int64_t>(1, value);
  };
  facts->degrees.tensor = degree("tensor_model_parallel_size");
  facts->degrees.pipe = degree("pipeline_model_parallel_size");
  facts->degrees.context = degree("context_parallel_size");
  facts->degrees.expert = degree("expert_model_parallel_size");
  const std::optional<int64_t> expert_tensor = settings.Int("expert_tensor_parallel_size");
  ASSIGN_OR_RETURN(std::optional<ShapeNumbers> shape,
                   ReadMegatronShape(settings, form, input, facts));
  int64_t layers = shape ? shape->layers : 0;
  bool mixes = shape && shape->experts > 0;
  if (!input.model.empty()) {
    shape.reset();
    RETURN_IF_ERROR(ReadModelOfFlag(input, facts));
    std::erase_if(facts->questions, [](const Question& question) {
      return question.flag == "--model=config.json" || question.flag == "--vocab=N";
    });
    layers = facts->model.model->layers();
    mixes = facts->model.model->experts() > 0;
  }
  facts->degrees.expert_tensor = mixes ? expert_tensor.value_or(facts->degrees.tensor) : 1;
  ReadMegatronOptimizer(settings, form, facts);
  // A mask of each document is what changes attention; the two others change numbers alone.
  if (const Setting* mask = settings.Find("reset_attention_mask");
      mask != nullptr && settings.Bool("reset_attention_mask").value_or(false)) {
    facts->separate_documents = true;
    settings.Bool("reset_position_ids");
    settings.Bool("eod_mask_loss");
  }
  ReadMegatronParallelism(settings, form, layers, facts);
  settings.Sort(more);
  RETURN_IF_ERROR(settings.status());
  if (shape) {
    absl::StatusOr<ModelFacts> model = MakeModelFacts(*shape);
    const ModelFacts before = facts->model;
    RETURN_IF_ERROR(model.status());
    facts->model = *std::move(model);
    facts->model.from = before.from;
    facts->model.vocab_given = before.vocab_given;
    facts->model.vocab_rule = before.vocab_rule;
    facts->dropout_hidden = shape->dropout_hidden;
    facts->dropout_attention = shape->dropout_attention;
  }
  const std::optional<int64_t> positions = settings.Int("max_position_embeddings");
  facts->settings = settings.all();
  if (!form.refuses_unknown.empty()) RefuseUnderscores(facts);
  RefuseUnknown(form, facts);
  CompleteDegrees(form.words, facts);
  if (!form.refuses_unknown.empty()) {
    CheckMegatronWords(facts);
    CheckMegatronRules(settings, form, positions.value_or(0), facts);
  }
  // What Megatron itself makes of a batch that is not given.
  if (!facts->batch.global && facts->batch.micro && facts->degrees.data) {
    facts->batch.global = *facts->batch.micro * *facts->degrees.data;
    facts->batch.micro_batches = 1;
  }
  return absl::OkStatus();
}

}  // namespace oneflow::foreign
