// The reader of torchtitan: its files and commands become settings here, settings become facts in
// torchtitan_facts.cc.
#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_facts.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

bool HasTitanKeys(const nlohmann::ordered_json& root) {
  if (!root.is_object()) return false;
  const auto has = [&](const char* section, std::initializer_list<const char*> keys) {
    if (!root.contains(section) || !root[section].is_object()) return false;
    return std::any_of(keys.begin(), keys.end(),
                       [&](const char* key) { return root[section].contains(key); });
  };
  return has("model", {"flavor", "hf_assets_path"}) || has("model_spec", {"flavor"}) ||
         has("parallelism", {"data_parallel_shard_degree", "tensor_parallel_degree",
                             "pipeline_parallel_degree", "fsdp_reshard_after_forward"}) ||
         (has("training", {"seq_len", "local_batch_size", "batch_size"}) &&
          (root.contains("job") || root.contains("optimizer")));
}

bool IsTitanScript(std::string_view program) {
  return program.ends_with("run_train.sh") || program.ends_with("run_llama_train.sh");
}

bool KnowsTitan(const Sources& sources) {
  if (sources.launch) {
    const Launch& launch = *sources.launch;
    if (launch.program.find("torchtitan") != std::string::npos || IsTitanScript(launch.program)) {
      return true;
    }
    bool has_module = false, has_config = false;
    for (const Word& word : launch.arguments) {
      const std::string key = KeyOfFlag(word.text.substr(0, word.text.find('=')));
      if (word.text.starts_with("--job.config")) return true;
      has_module |= word.text.starts_with("--") && key == "module";
      has_config |= word.text.starts_with("--") && key == "config";
    }
    if (has_module && has_config) return true;
  }
  return std::any_of(sources.files.begin(), sources.files.end(),
                     [](const SettingsFile& file) { return HasTitanKeys(file.root); });
}

void AddTitanSetting(Setting setting, Settings* settings) {
  // tyro's booleans: --compile.no-enable.
  const size_t dot = setting.key.rfind('.');
  if (setting.is_switch && dot != std::string::npos &&
      std::string_view(setting.key).substr(dot + 1).starts_with("no_")) {
    setting.key.erase(dot + 1, 3);
    setting.is_switch = false;
    setting.value = false;
  }
  setting.key = TitanKey(setting.key);
  settings->Add(std::move(setting));
}

// `key` of the environment; the last assignment counts.
const Word* FindVariable(const Launch& launch, std::string_view key) {
  const Word* found = nullptr;
  for (const auto& [name, word] : launch.environment) {
    if (name == key) found = &word;
  }
  return found;
}

// "llama3_70b" of "./torchtitan/models/llama3/train_configs/llama3_70b.toml".
std::string NameOfOwnFile(const std::string& path) {
  const std::filesystem::path file(path);
  std::string stem =
      absl::StrReplaceAll(absl::AsciiStrToLower(file.stem().string()), {{".", "_"}, {"-", "_"}});
  if (stem == "debug_model") {
    stem = absl::StrCat(file.parent_path().parent_path().filename().string(), "_debugmodel");
  }
  return stem;
}

// What a configuration by name sets, or the question that is left.
void AddNamed(const std::string& name, const std::string& model, TitanSources* titan) {
  const std::optional<std::string> words = FindTitanNamed(name);
  if (words) {
    for (const absl::string_view word : absl::StrSplit(*words, ' ')) {
      const std::pair<std::string, std::string> pair =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      titan->named.Add(
          {.name = pair.first, .key = pair.first, .value = pair.second, .where = name});
    }
    titan->named_from = name;
    return;
  }
  titan->is_named_unknown = true;
  if (model.starts_with("flux"))
    titan->named.Add({.name = "module", .key = "model.name", .value = model});
  const std::string near = NearestTitanNamed(name, model);
  if (near.empty()) {
    titan->facts.unread.push_back(absl::StrCat(titan->settings.Where("config"),
                                               ": a configuration of the user's own, ", name,
                                               ", in Python: what it sets is not read"));
    titan->facts.questions.push_back({"which model", "--model=NAME"});
    return;
  }
  titan->facts.broken.push_back(
      {.rule = "a configuration of that name must be there",
       .numbers = absl::StrCat("--config ", name),
       .theirs = absl::StrCat("Config function '", name, "' not found in torchtitan.models.",
                              model.empty() ? "llama3" : model, ".config_registry"),
       .hint = absl::StrCat("--config ", near),
       .where =
           titan->settings.Find("config") == nullptr ? "" : titan->settings.Find("config")->where});
}

absl::Status AddTitanFile(const SettingsFile& file, TitanSources* titan) {
  const bool is_dump = file.root.contains("model_spec");
  titan->form = is_dump                            ? "JSON that its configuration dumps"
                : file.path.extension() == ".json" ? "JSON that its configuration dumps"
                                                   : "TOML of before 2026";
  titan->is_2026 = is_dump;
  for (Setting& setting : FlattenSettings(file)) {
    if (setting.key == "model_spec.name") setting.key = "model.name";
    if (setting.key == "model_spec.flavor") setting.key = "model.flavor";
    AddTitanSetting(std::move(setting), &titan->settings);
  }
  titan->root = &file.root;
  titan->file = &file;
  return absl::OkStatus();
}

// The file that the command names, or the only one that was given beside it.
absl::Status AddConfigFile(const std::string& named, Sources& sources, TitanSources* titan) {
  const SettingsFile* file = nullptr;
  if (!named.empty()) {
    ASSIGN_OR_RETURN(file, FindSettingsFile(sources, named));
  }
  if (file == nullptr) {
    std::vector<const SettingsFile*> titans;
    for (const SettingsFile& f : sources.files) {
      if (HasTitanKeys(f.root)) titans.push_back(&f);
    }
    if (titans.size() > 1) {
      return InputError(titans[1]->name, "is a second configuration of torchtitan",
                        "give one file, and the command that names it");
    }
    if (!titans.empty()) file = titans.front();
  }
  if (file != nullptr) return AddTitanFile(*file, titan);
  if (named.empty()) return absl::OkStatus();
  titan->form = "TOML of before 2026";
  const std::string own = NameOfOwnFile(named);
  if (FindTitanNamed(own)) {
    AddNamed(own, "", titan);
  } else {
    titan->lacks_file = true;
    titan->facts.questions.push_back({absl::StrCat("what ", named, " says: there is no such file"),
                                      "the file itself, beside the command"});
  }
  return absl::OkStatus();
}

// Words of the program. Subcommands of tyro, "activation_checkpoint:full", are taken out first.
void AddTitanWords(const Launch& launch, TitanSources* titan) {
  std::vector<Word> words, rest;
  for (const Word& word : launch.arguments) {
    const std::string text = absl::StrReplaceAll(word.text, {{"-", "_"}});
    constexpr std::string_view kPolicy = "activation_checkpoint:";
    if (!text.starts_with(kPolicy)) {
      words.push_back(word);
      continue;
    }
    titan->settings.Add({.name = word.text,
                         .key = "activation_checkpoint.mode",
                         .value = text.substr(kPolicy.size()),
                         .where = word.where});
  }
  for (Setting& setting : ParseFlags(words, &rest)) {
    AddTitanSetting(std::move(setting), &titan->settings);
  }
  for (const Word& word : rest) {
    titan->facts.broken.push_back(
        {.rule = "every word belongs to a flag",
         .numbers = word.text,
         .theirs = absl::StrCat("Unrecognized options: ", word.text),
         .hint = absl::StrCat("leave out ", word.text, ", or write it as --section.key value"),
         .where = word.where});
  }
}

// Adds a variable of the environment as a setting; a flag of the same key beats it. kUnknown: its
// reader says the list.
void AddVariable(const Launch& launch, const char* name, const char* key, List list,
                 TitanSources* titan) {
  const Word* word = FindVariable(launch, name);
  if (word == nullptr || titan->settings.Has(key)) return;
  titan->settings.Add({.name = name,
                       .key = key,
                       .value = word->text,
                       .where = word->where,
                       .list = list,
                       .is_sorted = list != List::kUnknown});
}

void AddDevices(const Launch& launch, TitanSources* titan) {
  Facts* facts = &titan->facts;
  facts->devices = launch.devices;
  facts->devices_a_node = launch.devices_a_node;
  facts->devices_from = launch.devices_from;
  int64_t number = 0;
  const Word* ngpu = FindVariable(launch, "NGPU");
  AddVariable(launch, "NGPU", "NGPU", List::kTaken, titan);
  for (const char* name : {"LOG_RANK", "COMM_MODE", "TRAIN_FILE", "TORCHFT_LIGHTHOUSE"}) {
    AddVariable(launch, name, name, List::kLauncher, titan);
  }
  if (!facts->devices && ngpu != nullptr && absl::SimpleAtoi(ngpu->text, &number)) {
    facts->devices = facts->devices_a_node = number;
    facts->devices_from = absl::StrCat(ngpu->where, ": NGPU=", number);
  } else if (!facts->devices && ngpu == nullptr && IsTitanScript(launch.program)) {
    facts->devices = facts->devices_a_node = 8;
    facts->devices_from = absl::StrCat(launch.program, ": NGPU is 8 where nothing sets it");
  }
}

absl::Status AddLaunch(const Launch& launch, Sources& sources, TitanSources* titan) {
  AddTitanWords(launch, titan);
  if (IsTitanScript(launch.program)) {
    AddVariable(launch, "CONFIG_FILE", "job.config_file", List::kUnknown, titan);
    AddVariable(launch, "MODULE", "module", List::kUnknown, titan);
    AddVariable(launch, "CONFIG", "config", List::kUnknown, titan);
  }
  AddDevices(launch, titan);
  const std::string module = titan->settings.Text("module").value_or("");
  const std::string config = titan->settings.Text("config").value_or("");
  const std::string named = titan->settings.Text("job.config_file").value_or("");
  const bool has_file =
      std::any_of(sources.files.begin(), sources.files.end(),
                  [](const SettingsFile& file) { return HasTitanKeys(file.root); });
  if (!module.empty() || !config.empty() ||
      (named.empty() && !has_file && IsTitanScript(launch.program))) {
    titan->is_2026 = true;
    titan->form = "command line of 2026: --module, --config and overrides";
    const std::string model = module.substr(module.rfind('.') + 1);  // torchtitan.models.llama3
    AddNamed(config.empty() ? "llama3_debugmodel" : config, model, titan);
    titan->model_from = absl::StrCat("--module ", module.empty() ? "llama3" : module, " --config ",
                                     config.empty() ? "llama3_debugmodel" : config);
    return absl::OkStatus();
  }
  // The command's words beat the file's.
  const Settings words = titan->settings;
  titan->settings = Settings("torchtitan");
  RETURN_IF_ERROR(AddConfigFile(named, sources, titan));
  titan->settings.Append(words);
  if (!titan->named_from.empty() && !named.empty()) {
    titan->settings.Put("job.config_file", List::kTaken,
                        absl::StrCat("torchtitan's own file ", titan->named_from));
  }
  return absl::OkStatus();
}

absl::StatusOr<Facts> ReadTitan(Sources& sources, const ForeignInput& input) {
  TitanSources titan;
  titan.form = "TOML of before 2026";
  titan.model_from = "name and flavor";
  titan.facts.system = "torchtitan";
  if (sources.launch) {
    // The launch is copied: FindSettingsFile may read more files into the sources.
    const Launch launch = *sources.launch;
    RETURN_IF_ERROR(AddLaunch(launch, sources, &titan));
    titan.launcher = launch.settings;
  } else {
    RETURN_IF_ERROR(AddConfigFile("", sources, &titan));
  }
  titan.facts.files = sources.names;
  titan.facts.unread.insert(titan.facts.unread.begin(), sources.unread.begin(),
                            sources.unread.end());
  if (input.devices) {
    titan.facts.devices = input.devices;
    titan.facts.devices_from = "--devices";
  }
  return MakeTitanFacts(input, &titan);
}

}  // namespace

Reader TorchtitanReader() { return {"torchtitan", KnowsTitan, ReadTitan}; }

}  // namespace oneflow::foreign
