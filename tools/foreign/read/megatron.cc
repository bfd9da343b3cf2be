// Megatron-LM: scripts, arguments, and the YAML of --yaml-cfg.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/ds_config.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

const SharedWords kWords = {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
                            "--context-parallel-size", "--global-batch-size", "--micro-batch-size"};

bool HasFlag(const Launch& launch, std::string_view flag) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(), [&](const Word& word) {
    return KeyOfFlag(word.text.substr(0, word.text.find('='))) == flag &&
           word.text.starts_with("--");
  });
}

bool IsMegatronYaml(const SettingsFile& file) {
  return file.root.contains("language_model") && file.root.contains("model_parallel");
}

bool KnowsMegatron(const Sources& sources) {
  for (const SettingsFile& file : sources.files) {
    if (IsMegatronYaml(file)) return true;
  }
  if (!sources.launch) return false;
  const std::string& program = sources.launch->program;
  const std::string base = program.substr(program.rfind('/') + 1);
  for (const char* name : {"pretrain_gpt", "pretrain_mamba", "pretrain_bert", "pretrain_t5",
                           "pretrain_retro", "pretrain_vlm", "train_gpt"}) {
    if (base.starts_with(name)) return true;
  }
  for (const char* flag :
       {"tensor_model_parallel_size", "yaml_cfg", "use_mcore_models", "num_attention_heads"}) {
    if (HasFlag(*sources.launch, flag)) return true;
  }
  return false;
}

// Places of the YAML as keys of flags: "language_model.num_layers" is num_layers.
void AddYaml(const SettingsFile& file, Settings& settings) {
  for (Setting setting : FlattenSettings(file)) {
    for (const char* section : {"language_model.", "model_parallel."}) {
      if (setting.key.starts_with(section)) setting.key.erase(0, std::string(section).size());
    }
    // Of `activation_func: swiglu`, the flag of the same meaning is said below it.
    settings.Add(std::move(setting));
  }
}

// Megatron-DeepSpeed: what DeepSpeed's JSON says of sharding, batches and clipping counts; the rest
// is Megatron's.
absl::Status ReadJsonOfDeepSpeed(Sources& sources, const Setting* named, Facts* facts) {
  if (named == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SettingsFile* file, FindSettingsFile(sources, named->ValueText()));
  if (file == nullptr) {
    facts->unread.push_back(
        absl::StrCat(named->where, ": ", named->ValueText(), ", which is not there"));
    return absl::OkStatus();
  }
  Settings json("deepspeed");
  for (Setting& setting : FlattenSettings(*file)) json.Add(std::move(setting));
  DeepSpeedValues values(&json);
  Facts of_json = *facts;
  of_json.broken.clear();
  if (json.Has("zero_optimization.stage")) {
    ReadZero(&values, &of_json);
    facts->sharding = of_json.sharding;
    if (facts->sharding.what == "none") facts->sharding.ways = 1;
    if (facts->degrees.data && facts->sharding.what != "none" && !facts->sharding.ways) {
      facts->sharding.ways = *facts->degrees.data / facts->sharding.replicas;
    }
    facts->offload = of_json.offload;
  }
  ReadDeepSpeedPrecision(&values, &of_json);
  ReadDeepSpeedOptimizer(&values, &of_json);
  if (json.Has("gradient_clipping")) facts->optimizer.clip = of_json.optimizer.clip;
  ReadDeepSpeedBatch(&values, &of_json);
  SortDeepSpeed(&values, &of_json);
  RETURN_IF_ERROR(json.status());
  facts->broken.insert(facts->broken.end(), of_json.broken.begin(), of_json.broken.end());
  facts->settings.insert(facts->settings.end(), json.all().begin(), json.all().end());
  return absl::OkStatus();
}

absl::StatusOr<Facts> ReadMegatron(Sources& sources, const ForeignInput& input) {
  Facts facts;
  facts.system = "megatron-lm";
  facts.form = sources.names.empty() ? "command" : "shell script";
  facts.unread = sources.unread;
  MegatronForm form{.words = kWords};
  form.refuses_unknown = "unrecognized arguments";
  Settings settings("megatron-lm");
  std::vector<Word> rest;
  bool has_yaml = false;
  for (const SettingsFile& file : sources.files) {
    if (!IsMegatronYaml(file)) continue;
    AddYaml(file, settings);
    has_yaml = true;
  }
  if (sources.launch) {
    const Launch& launch = *sources.launch;
    Settings words("megatron-lm");
    for (Setting& setting : ParseFlags(launch.arguments, &rest)) words.Add(std::move(setting));
    if (const Setting* yaml = words.Find("yaml_cfg"); yaml != nullptr && !has_yaml) {
      ASSIGN_OR_RETURN(const SettingsFile* file, FindSettingsFile(sources, yaml->ValueText()));
      if (file == nullptr) {
        return InputError(words.Where("yaml_cfg"), "is not there",
                          "give the file beside the script: `oneflow fit run.sh model.yaml`");
      }
      AddYaml(*file, settings);
      has_yaml = true;
    }
    form.deepspeed = words.Has("deepspeed") || words.Has("deepspeed_config");
    if (has_yaml) {
      // Megatron-LM takes the file alone.
      for (Setting setting : words.all()) {
        if (setting.key == "yaml_cfg") continue;
        setting.key.insert(0, "argv.");
        setting.list = List::kNoEffect;
        setting.note = "ignored beside --yaml-cfg";
        setting.is_sorted = true;
        settings.Add(std::move(setting));
      }
      if (const Setting* yaml = words.Find("yaml_cfg")) settings.Add(*yaml);
    } else {
      settings.Append(words);
    }
    if (has_yaml) settings.Put("yaml_cfg", List::kTaken);
    for (const char* key : {"deepspeed", "deepspeed_config"}) settings.Put(key, List::kTaken);
    // pretrain_gpt.py takes this one where no flag names another.
    form.default_tokenizer = "GPT2BPETokenizer";
    facts.devices = launch.devices;
    facts.devices_a_node = launch.devices_a_node;
    facts.devices_from = launch.devices_from;
  }
  if (has_yaml) {
    facts.form = "YAML of --yaml-cfg";
    form.groups_need_switch = false;
    form.biases = true;
  }
  facts.model.from = has_yaml ? "file" : "flags";
  if (input.devices) {
    facts.devices = input.devices;
    facts.devices_from = "--devices";
  }
  for (const Word& word : rest) {
    Setting stray{.name = word.text, .key = word.text, .value = word.text, .where = word.where};
    settings.Add(std::move(stray));
  }
  RETURN_IF_ERROR(FillMegatronFacts(settings, form, input, MegatronLists(), &facts));
  if (form.deepspeed) {
    RETURN_IF_ERROR(ReadJsonOfDeepSpeed(sources, settings.Find("deepspeed_config"), &facts));
  }
  if (sources.launch) {
    const auto& more = sources.launch->settings;
    facts.settings.insert(facts.settings.begin(), more.begin(), more.end());
  }
  facts.files = sources.names;
  return facts;
}

}  // namespace

Reader MegatronReader() { return {"megatron-lm", KnowsMegatron, ReadMegatron}; }

}  // namespace oneflow::foreign
