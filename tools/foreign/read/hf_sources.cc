// Which of the files and words are of the Trainer's world, and what they name.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/hf_trainer.h"
#include "training/hugging_face/named_model.h"

namespace oneflow::foreign {
namespace {

bool HfHasAny(const nlohmann::ordered_json& root, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return root.contains(key); });
}

bool HfNamesSettings(const std::string& word) {
  return word.ends_with(".json") || word.ends_with(".yaml") || word.ends_with(".yml");
}

// Letters to change, add or drop between two words.
int HfDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int before = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int here = std::min({row[j] + 1, row[j - 1] + 1, before + (a[i - 1] != b[j - 1])});
      before = row[j];
      row[j] = here;
    }
  }
  return row[b.size()];
}

// The scripts of transformers and trl, which refuse words that they do not have.
bool HfIsPublicScript(std::string_view program, ScriptKind kind) {
  const std::string_view name = program.substr(program.find_last_of('/') + 1);
  for (const char* script : {"run_clm.py", "run_mlm.py", "run_fim.py", "run_plm.py",
                             "run_clm_no_trainer.py", "run_translation.py"}) {
    if (name == script) return true;
  }
  return kind == ScriptKind::kTrl && (name == "sft.py" || name == "dpo.py");
}

// The folder or config.json that a word names; empty if it is no path.
std::filesystem::path HfModelPath(const std::string& word, const Sources& sources) {
  const std::filesystem::path path = FindPath(sources, word);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return path;
  return std::filesystem::exists(path / "config.json", ignored) ? path : "";
}

}  // namespace

HfFile FindHfFile(const nlohmann::ordered_json& root) {
  if (!root.is_object()) return HfFile::kOther;
  if (HfHasAny(root, {"distributed_type", "compute_environment"}) ||
      (root.contains("num_processes") &&
       HfHasAny(root, {"fsdp_config", "deepspeed_config", "mixed_precision", "num_machines"}))) {
    return HfFile::kAccelerate;
  }
  if (HfHasAny(root, {"model_type", "architectures"}) &&
      HfHasAny(root, {"hidden_size", "n_embd", "vocab_size"})) {
    return HfFile::kModelConfig;
  }
  // axolotl has a tokenizer_type, too.
  if (HfHasAny(root, {"base_model", "model_name_or_path"})) return HfFile::kWords;
  // GPT-NeoX has DeepSpeed's keys beside its own.
  if (HfHasAny(root, {"num_layers", "pipe_parallel_size", "pipe-parallel-size", "num-layers",
                      "tokenizer_type", "data_path"})) {
    return HfFile::kOther;
  }
  if (HfHasAny(root, {"per_device_train_batch_size", "output_dir"})) return HfFile::kWords;
  const bool has_object = (root.contains("fp16") && root["fp16"].is_object()) ||
                          (root.contains("bf16") && root["bf16"].is_object()) ||
                          (root.contains("optimizer") && root["optimizer"].is_object());
  if (has_object || HfHasAny(root, {"zero_optimization", "train_micro_batch_size_per_gpu",
                                    "train_batch_size", "zero_allow_untested_optimizer"})) {
    return HfFile::kDeepSpeed;
  }
  return HfHasAny(root, {"learning_rate", "gradient_accumulation_steps"}) ? HfFile::kWords
                                                                          : HfFile::kOther;
}

bool NamesFileOfWords(const Sources& sources, bool* has_deepspeed) {
  bool has_words = false;
  *has_deepspeed = false;
  if (!sources.launch) return false;
  for (const Word& word : sources.launch->arguments) {
    if (!HfNamesSettings(word.text) || word.text.starts_with('-')) continue;
    const std::filesystem::path path = FindPath(sources, word.text);
    if (path.empty()) continue;
    const absl::StatusOr<SettingsFile> file = ReadSettingsFile(path, path.filename());
    if (!file.ok() || FindHfFile(file->root) != HfFile::kWords) continue;
    has_words = true;
    *has_deepspeed =
        *has_deepspeed || (file->root.contains("deepspeed") && !file->root["deepspeed"].is_null());
  }
  return has_words;
}

absl::StatusOr<HfSources> SortSources(Sources& sources) {
  HfSources found;
  for (const SettingsFile& file : sources.files) {
    switch (FindHfFile(file.root)) {
      case HfFile::kAccelerate: found.accelerate = file; break;
      case HfFile::kDeepSpeed: found.deepspeed = file; break;
      case HfFile::kModelConfig: found.model_config = file.path.string(); break;
      case HfFile::kWords:
        for (Setting& setting : FlattenSettings(file)) found.words.Add(std::move(setting));
        break;
      case HfFile::kOther: break;
    }
  }
  if (!sources.launch) return found;
  found.program = sources.launch->program;
  std::vector<Word> rest;
  const std::vector<Setting> flags = ParseFlags(sources.launch->arguments, &rest);
  // A file of words comes first: the words beside it beat it.
  std::vector<Word> named = rest;
  for (const Setting& flag : flags) {
    if (flag.key != "config" || !flag.value.is_string()) continue;
    named.push_back({flag.ValueText(), flag.where});
  }
  for (const Word& word : named) {
    if (!HfNamesSettings(word.text)) continue;
    ASSIGN_OR_RETURN(const SettingsFile* const file, FindSettingsFile(sources, word.text));
    if (file == nullptr) {
      found.missing.push_back(word.text);
    } else if (FindHfFile(file->root) == HfFile::kWords) {
      for (Setting& setting : FlattenSettings(*file)) found.words.Add(std::move(setting));
    }
  }
  for (const Setting& flag : flags) found.words.Add(flag);

  for (const char* key : {"deepspeed_config", "deepspeed"}) {
    const Setting* setting = found.words.Find(key);
    if (setting == nullptr || !setting->value.is_string()) continue;
    const std::string name = setting->ValueText();
    if (name.empty() || name == "true" || name == "false") continue;
    found.deepspeed_where = found.words.Where(key);
    ASSIGN_OR_RETURN(const SettingsFile* const file, FindSettingsFile(sources, name));
    if (file == nullptr) {
      if (!found.deepspeed) found.missing.push_back(name);
    } else {
      found.deepspeed = *file;
    }
    break;
  }
  if (const Setting* setting = found.words.Find("fsdp_config");
      setting != nullptr && setting->value.is_string() && HfNamesSettings(setting->ValueText())) {
    ASSIGN_OR_RETURN(const SettingsFile* const file,
                     FindSettingsFile(sources, setting->ValueText()));
    if (file == nullptr) {
      found.missing.push_back(setting->ValueText());
    } else {
      found.fsdp = *file;
    }
  }
  return found;
}

void SortTrainerWords(const TrainerWords& words, std::string_view program, Settings* settings,
                      Facts* facts) {
  std::vector<ListedKeys> lists(TrainerLists().begin(), TrainerLists().end());
  lists.insert(lists.end(), ScriptLists().begin(), ScriptLists().end());
  settings->Sort(lists);
  const bool is_public = HfIsPublicScript(program, words.kind);
  std::vector<const Setting*> unknown;
  for (const Setting& setting : settings->all()) {
    if (setting.list == List::kUnknown) unknown.push_back(&setting);
  }
  for (const Setting* setting : unknown) {
    const std::string key = setting->key;
    const std::string hint = "did you mean --";
    const bool has_near = setting->note.starts_with(hint);
    const std::string near =
        has_near
            ? KeyOfFlag(setting->note.substr(hint.size(), setting->note.size() - hint.size() - 1))
            : "";
    const bool is_near = has_near && key.size() >= 6 && HfDistance(key, near) <= 2;
    if (!is_public && !(words.is_trainer() && is_near)) {
      settings->Put(key, List::kNoEffect, "of the user's own script");
      continue;
    }
    const std::string value = setting->ValueText();
    facts->broken.push_back(
        {.rule = "no unknown argument",
         .numbers = setting->name,
         .theirs =
             absl::StrCat(words.kind == ScriptKind::kNoTrainer
                              ? "error: unrecognized arguments: "
                              : "Some specified arguments are not used by the HfArgumentParser: ",
                          setting->name, value.empty() ? "" : " ", value),
         .hint = is_near ? absl::StrCat("--", near) : "leave it out",
         .where = setting->where});
  }
}

absl::Status ReadNamedModel(const TrainerWords& words, const HfSources& found,
                            const Sources& sources, const ForeignInput& input, Facts* facts) {
  facts->sequence = words.sequence;
  if (input.sequence) facts->sequence = input.sequence;
  std::string named = input.model.empty() ? words.model : input.model;
  std::string path = input.model.empty() ? found.model_config : "";
  if (!named.empty()) {
    const std::filesystem::path at = HfModelPath(named, sources);
    if (!at.empty()) path = at.string();
    if (path.empty() && !NamesModel(named)) {
      facts->questions.push_back(
          {absl::StrFormat("which model %s is: no folder with a config.json, and no public name "
                           "that is known",
                           named),
           "--model=NAME|config.json"});
      return absl::OkStatus();
    }
  } else if (path.empty()) {
    facts->questions.push_back({"which model is trained", "--model=NAME|config.json"});
    return absl::OkStatus();
  }
  NamedModelOptions options{.approximate = true};
  if (facts->sequence) options.said.set_sequence(*facts->sequence);
  ASSIGN_OR_RETURN(const NamedModel model, FindNamedModel(path.empty() ? named : path, options));
  facts->model.model = model.model;
  facts->model.from = path.empty() ? "public name" : "config.json";
  facts->model.parameters = model.parameters;
  facts->model.vocab_given = model.model.vocab();
  for (const ModelDifference& difference : model.differences) {
    facts->model.differences.push_back({difference.what, difference.parameters});
  }
  if (!facts->sequence) {
    facts->questions.push_back({"how long a sequence is", "--sequence=N"});
  }
  return absl::OkStatus();
}

void ReadDevices(const Sources& sources, const ForeignInput& input, Facts* facts) {
  if (sources.launch) {
    facts->devices_a_node = sources.launch->devices_a_node;
    facts->devices_from = sources.launch->devices_from;
    if (sources.launch->devices) facts->devices = sources.launch->devices;
  }
  if (input.devices) {
    if (input.devices != facts->devices) facts->devices_a_node = 0;
    facts->devices = input.devices, facts->devices_from = "--devices";
  }
}

}  // namespace oneflow::foreign
