// DeepSpeed's JSON, beside the words of a launcher and of a script.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/ds_config.h"
#include "tools/foreign/read/hf_trainer.h"
#include "tools/foreign/read/hostfile.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

bool DsKnows(const Sources& sources) {
  bool has_json = false;
  for (const SettingsFile& file : sources.files) {
    const HfFile kind = FindHfFile(file.root);
    if (kind == HfFile::kAccelerate) return false;
    has_json = has_json || kind == HfFile::kDeepSpeed ||
               (kind == HfFile::kWords && file.root.contains("deepspeed") &&
                !file.root["deepspeed"].is_null());
  }
  if (!sources.launch) return has_json;
  const Launch& launch = *sources.launch;
  if (launch.launcher == "accelerate") return false;
  if (launch.program.find("deepy.py") != std::string::npos) return false;
  bool in_words = false;
  NamesFileOfWords(sources, &in_words);
  bool said = launch.launcher == "deepspeed" || in_words;
  for (const Word& word : launch.arguments) {
    const std::string key = KeyOfFlag(word.text.substr(0, word.text.find('=')));
    if (!word.text.starts_with("--")) continue;
    // Megatron-DeepSpeed is Megatron's.
    if (key == "tensor_model_parallel_size" || key == "num_layers") return false;
    said = said || key == "deepspeed" || key == "deepspeed_config";
  }
  return said || has_json;
}

// Options of the launcher that say which hosts there are.
absl::Status ReadDsHosts(Sources& sources, const ForeignInput& input, Facts* facts) {
  if (input.devices || !sources.launch || facts->devices) return absl::OkStatus();
  std::string named;
  HostFilter filter;
  for (const Setting& setting : sources.launch->settings) {
    const std::string value = setting.ValueText();
    if (setting.key == "deepspeed.hostfile" || setting.key == "deepspeed.H") named = value;
    if (setting.key == "deepspeed.include" || setting.key == "deepspeed.i") filter.include = value;
    if (setting.key == "deepspeed.exclude" || setting.key == "deepspeed.e") filter.exclude = value;
    if (setting.key == "deepspeed.num_nodes") filter.nodes = std::atoll(value.c_str());
    if (setting.key == "deepspeed.num_gpus") filter.devices_a_node = std::atoll(value.c_str());
  }
  return named.empty() ? absl::OkStatus() : ReadHostfile(named, filter, sources, facts);
}

// The JSON as settings: its file's, or the object that a file of words holds in its place.
Settings DsSettings(const HfSources& found, Settings* words) {
  Settings settings("deepspeed");
  if (found.deepspeed) {
    for (Setting& setting : FlattenSettings(*found.deepspeed)) settings.Add(std::move(setting));
    return settings;
  }
  const std::string prefix = "deepspeed.";
  std::vector<Setting> inside;
  for (const Setting& setting : words->all()) {
    if (setting.key.starts_with(prefix)) inside.push_back(setting);
  }
  for (Setting& setting : inside) {
    words->Put(setting.key, List::kTaken);
    setting.key = setting.key.substr(prefix.size());
    settings.Add(std::move(setting));
  }
  return settings;
}

// Stages of PipelineModule, which a script makes; layers are spread evenly where they are equal.
void ReadDsPipe(Facts* facts) {
  const int64_t pipe = facts->degrees.pipe;
  if (pipe < 2) return;
  facts->schedule.name = "1f1b";
  if (facts->sharding.what == "gradients" || facts->sharding.what == "weights") {
    facts->broken.push_back(
        {.rule = "a pipeline needs ZeRO 0 or 1",
         .numbers = absl::StrCat("pipe ", pipe, " with split ", facts->sharding.what),
         .theirs = "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism",
         .hint = "\"stage\": 1"});
  }
  if (!facts->model.model) return;
  const int64_t layers = facts->model.model->layers();
  for (int64_t stage = 0; stage < pipe; ++stage) {
    facts->schedule.stage_layers.push_back(layers / pipe + (stage < layers % pipe));
  }
}

void AskDsMissing(const HfSources& found, const DeepSpeedValues& values, const TrainerWords& words,
                  bool says_stage, Facts* facts) {
  for (const std::string& file : found.missing) {
    facts->questions.push_back(
        {absl::StrCat("what is in ", file), absl::StrCat("the file ", file)});
  }
  if (values.settings()->all().empty() && found.missing.empty() && !says_stage) {
    facts->questions.push_back({"what DeepSpeed is configured to", "its JSON, as a further file"});
  }
  if (values.unfilled().empty() || words.is_trainer()) return;
  facts->questions.push_back(
      {absl::StrCat("what the script puts in place of \"auto\" of ",
                    absl::StrJoin(values.unfilled(), ", "),
                    ": DeepSpeed itself refuses it, transformers' Trainer fills it in"),
       "numbers in the JSON"});
}

absl::StatusOr<Facts> ReadDs(Sources& sources, const ForeignInput& input) {
  ASSIGN_OR_RETURN(HfSources found, SortSources(sources));
  Facts facts;
  facts.system = "deepspeed";
  ReadDevices(sources, input, &facts);
  RETURN_IF_ERROR(ReadDsHosts(sources, input, &facts));

  Settings said = found.words;
  const ScriptKind kind = FindScriptKind(found.program, said);
  const TrainerWords words = ReadTrainerWords(&said, kind);
  UseTrainerWords(words, &facts);
  const PrecisionFacts of_words = facts.precision;
  Settings settings = DsSettings(found, &said);
  DeepSpeedValues values(&settings);

  if (words.tensor) facts.degrees.tensor = *words.tensor;
  if (words.pipe) facts.degrees.pipe = *words.pipe;
  if (words.context) facts.degrees.context = *words.context;
  ReadDeepSpeedDegrees(&values, &facts);
  if (words.is_trainer()) FillFromTrainer(words, facts, &values, &facts);
  // DeepSpeed-Chat's scripts make the JSON from words.
  const int64_t stage = said.Has("zero_stage") ? said.Int("zero_stage").value_or(0) : 0;
  ReadZero(&values, &facts, stage);
  if (said.Has("zero_stage") && said.Has("offload") && said.Bool("offload").value_or(false)) {
    facts.offload.states = facts.offload.update = facts.sharding.what != "none";
    facts.offload.weights = facts.sharding.what == "weights";
  }
  ReadDeepSpeedPrecision(&values, &facts);
  if (facts.precision.here == "f32" && !values.Has("bf16.enabled") && !values.Has("fp16.enabled")) {
    facts.precision = of_words;
    facts.precision.gradients_in_bf16 = of_words.here == "bf16";
  }
  ReadDeepSpeedOptimizer(&values, &facts);
  if (facts.offload.activations && words.is_trainer()) {
    facts.offload.activations = false;
    values.Put("activation_checkpointing.cpu_checkpointing", List::kNoEffect,
               "the Trainer checkpoints by PyTorch's own means");
  }
  facts.batch.micro = words.micro;
  facts.batch.global = words.global;
  facts.batch.micro_batches = words.accumulation;
  const bool batch_is_broken = ReadDeepSpeedBatch(&values, &facts);
  RETURN_IF_ERROR(ReadNamedModel(words, found, sources, input, &facts));
  ReadDsPipe(&facts);
  CompleteDeepSpeedDegrees(batch_is_broken, &facts);

  SortDeepSpeed(&values, &facts);
  SortTrainerWords(words, found.program, &said, &facts);
  AskDsMissing(found, values, words, said.Has("zero_stage"), &facts);
  RETURN_IF_ERROR(settings.status());
  RETURN_IF_ERROR(said.status());
  if (sources.launch) AddSettings(sources.launch->settings, &facts);
  AddSettings(settings.all(), &facts);
  AddSettings(said.all(), &facts);
  facts.form = absl::StrCat(found.deepspeed ? "JSON" : "words",
                            words.is_trainer() ? ", words of TrainingArguments" : "",
                            facts.model.from == "config.json" ? ", config.json of the model" : "");
  facts.files = sources.names;
  facts.unread = sources.unread;
  return facts;
}

}  // namespace

Reader DeepSpeedReader() { return {"deepspeed", DsKnows, ReadDs}; }

}  // namespace oneflow::foreign
