// The reader of Megatron-Bridge and NeMo: places of their files become Megatron's keys, whose
// meaning megatron_facts.h knows.
#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/bridge_reading.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

bool HasMember(const nlohmann::ordered_json& root, std::initializer_list<const char*> path) {
  const nlohmann::ordered_json* at = &root;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return false;
    at = &(*at)[key];
  }
  return true;
}

std::optional<BridgeKind> FindKind(const nlohmann::ordered_json& root) {
  if (HasMember(root, {"trainer", "strategy"}) ||
      HasMember(root, {"model", "config", "_target_"})) {
    return BridgeKind::kNemo2;
  }
  if (HasMember(root, {"trainer"}) && HasMember(root, {"model"}) &&
      (HasMember(root, {"exp_manager"}) || HasMember(root, {"model", "encoder_seq_length"}) ||
       HasMember(root, {"model", "micro_batch_size"}))) {
    return BridgeKind::kNemo1;
  }
  const bool has_model = HasMember(root, {"model", "num_layers"}) ||
                         HasMember(root, {"model", "tensor_model_parallel_size"}) ||
                         HasMember(root, {"model", "transformer"}) ||
                         HasMember(root, {"model", "_target_"});
  const bool has_train = HasMember(root, {"train", "global_batch_size"}) ||
                         HasMember(root, {"train", "micro_batch_size"}) ||
                         HasMember(root, {"train", "train_iters"}) || HasMember(root, {"ddp"}) ||
                         HasMember(root, {"mixed_precision"});
  const bool has_batch = HasMember(root, {"train", "global_batch_size"}) ||
                         HasMember(root, {"train", "micro_batch_size"}) ||
                         HasMember(root, {"train", "train_iters"});
  const bool has_more = HasMember(root, {"optimizer"}) || HasMember(root, {"scheduler"}) ||
                        HasMember(root, {"checkpoint"}) || HasMember(root, {"logger"});
  if ((has_model && has_train) || (has_batch && has_more)) return BridgeKind::kBridge;
  if (HasMember(root, {"_target_"}) && root["_target_"].is_string() &&
      root["_target_"].get<std::string>().find("megatron.bridge") != std::string::npos) {
    return BridgeKind::kBridge;
  }
  return std::nullopt;
}

bool HasOverride(const Launch& launch, std::initializer_list<const char*> sections) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(), [&](const Word& word) {
    if (!IsBridgeOverride(word.text)) return false;
    const std::string location = ParseBridgeOverride(word).key;
    return std::any_of(sections.begin(), sections.end(),
                       [&](const char* section) { return location.starts_with(section); });
  });
}

// Names of the flags that give the file.
bool IsFileFlag(std::string_view key) {
  return key == "config_file" || key == "config" || key == "config_name" || key == "yaml" ||
         key == "config_path" || key == "conf";
}

// True if a flag of the program names a file of these systems, which lies beside the script.
bool NamesBridgeFile(const Sources& sources) {
  for (const Setting& flag : ParseFlags(sources.launch->arguments, nullptr)) {
    if (!IsFileFlag(flag.key) || flag.is_switch || !flag.value.is_string()) continue;
    const std::string name = flag.ValueText();
    const std::filesystem::path path = FindPath(sources, name);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    const absl::StatusOr<SettingsFile> file = ReadSettingsFile(path, name);
    if (file.ok() && FindKind(file->root)) return true;
  }
  return false;
}

bool KnowsBridge(const Sources& sources) {
  for (const SettingsFile& file : sources.files) {
    if (FindKind(file.root)) return true;
  }
  return sources.launch &&
         (HasOverride(*sources.launch, {"model.", "train.", "trainer.", "optimizer.", "scheduler.",
                                        "ddp.", "checkpoint."}) ||
          NamesBridgeFile(sources));
}

}  // namespace

absl::Status BridgeReading::AddFile() {
  std::vector<const SettingsFile*> files;
  for (const Setting& flag : flags_.all()) {
    if (!IsFileFlag(flag.key) || flag.is_switch) continue;
    std::string named = flag.ValueText();
    absl::StatusOr<const SettingsFile*> file = FindSettingsFile(sources_, named);
    if (file.ok() && *file == nullptr && flag.key == "config_name") {
      file = FindSettingsFile(sources_, named + ".yaml");
    }
    RETURN_IF_ERROR(file.status());
    if (*file != nullptr) {
      files.push_back(*file);
    } else if (flag.key != "config_path") {
      facts_.questions.push_back({absl::StrCat("what ", named, " says: there is no such file"),
                                  "the file itself, beside the command"});
    }
  }
  for (const SettingsFile& file : sources_.files) {
    if (FindKind(file.root) && std::find(files.begin(), files.end(), &file) == files.end()) {
      files.push_back(&file);
    }
  }
  for (const SettingsFile* file : files) {
    if (const std::optional<BridgeKind> kind = FindKind(file->root)) kind_ = *kind;
    for (Setting& setting : FlattenSettings(*file)) {
      // Tags of classes; those of models and of activations say more.
      const bool is_tag = setting.key.ends_with("_call_") || setting.key.ends_with("_partial_") ||
                          setting.key.ends_with("_target_") || setting.key.ends_with("_name_") ||
                          setting.key.ends_with("_args_");
      const bool says_more = setting.key.find("activation_func.") != std::string::npos ||
                             setting.key == "model._target_" ||
                             setting.key == "model.config._target_";
      if (is_tag && !says_more) continue;
      locations_.Add(std::move(setting));
    }
  }
  if (files.empty() && sources_.launch &&
      HasOverride(*sources_.launch, {"trainer.strategy.", "optim.config."})) {
    kind_ = BridgeKind::kNemo2;
  } else if (files.empty() && sources_.launch &&
             HasOverride(*sources_.launch, {"trainer.", "exp_manager.", "model.optim."})) {
    kind_ = BridgeKind::kNemo1;
  }
  return absl::OkStatus();
}

void BridgeReading::AddWords() {
  if (!sources_.launch) return;
  std::vector<Word> words;
  for (const Word& word : sources_.launch->arguments) {
    if (!word.text.starts_with('-') && IsBridgeOverride(word.text)) continue;
    words.push_back(word);
  }
  for (Setting& setting : ParseFlags(words, nullptr)) flags_.Add(std::move(setting));
}

// Hydra lets a word without "+" change only what the file of NeMo has.
void BridgeReading::CheckOverride(const Word& word) {
  if (kind_ != BridgeKind::kNemo1 || locations_.all().empty()) return;
  if (word.text.starts_with('+') || word.text.starts_with('~')) return;
  const Setting setting = ParseBridgeOverride(word);
  std::vector<std::string> known;
  for (const Setting& location : locations_.all()) {
    if (location.key == setting.key || location.key.starts_with(setting.key + ".")) return;
    known.push_back(location.key);
  }
  const std::string near = Nearest(setting.key, known);
  const size_t dot = setting.key.rfind('.');
  facts_.broken.push_back(
      {.rule = "no unknown key",
       .numbers = setting.name,
       .theirs = absl::StrCat("Could not override '", setting.key, "'. Key '",
                              setting.key.substr(dot + 1), "' is not in struct"),
       .hint = near.empty() ? absl::StrCat("+", word.text)
                            : absl::StrCat(near, "=", setting.ValueText()),
       .where = word.where});
}

void BridgeReading::AddDevices() {
  if (sources_.launch) {
    facts_.devices = sources_.launch->devices;
    facts_.devices_a_node = sources_.launch->devices_a_node;
    facts_.devices_from = sources_.launch->devices_from;
  }
  int64_t nodes = 0, a_node = 0;
  const std::string said_nodes = Text("trainer.num_nodes"), said_devices = Text("trainer.devices");
  if (!is_bridge() && absl::SimpleAtoi(said_devices, &a_node) && a_node > 0) {
    if (!absl::SimpleAtoi(said_nodes, &nodes)) nodes = 1;
    facts_.devices = nodes * a_node;
    facts_.devices_a_node = a_node;
    facts_.devices_from = absl::StrCat("trainer.num_nodes=", nodes, " x trainer.devices=", a_node);
  }
  locations_.Put("trainer.num_nodes", List::kTaken);
  locations_.Put("trainer.devices", List::kTaken);
  if (input_.devices) {
    facts_.devices = input_.devices;
    facts_.devices_from = "--devices";
  }
}

void BridgeReading::CheckLengths(Facts* facts) {
  const std::string model = Text("model.seq_length");
  for (const char* location : {"dataset.seq_length", "dataset.sequence_length"}) {
    const std::string data = Text(location);
    if (data.empty() || model.empty() || data == model) continue;
    facts->broken.push_back(
        {.rule = "sequences of the model and of the data have one length",
         .numbers = absl::StrCat("model.seq_length=", model, ", ", location, "=", data),
         .theirs = "Please ensure sequence length configuration in model config and dataset config "
                   "match.",
         .hint = absl::StrCat(location, "=", model),
         .where = locations_.Find(location)->where});
  }
}

void BridgeReading::RefuseUnknown(Facts* facts) {
  if (!is_bridge()) return;
  for (const Setting& setting : facts->settings) {
    if (setting.list != List::kUnknown || setting.name.starts_with("-") ||
        setting.name.find('.') == std::string::npos) {
      continue;
    }
    constexpr std::string_view kBegin = "did you mean ";
    std::string hint = absl::StrCat("leave out ", setting.name);
    if (setting.note.starts_with(kBegin)) {
      std::string near = setting.note.substr(kBegin.size());
      if (near.ends_with('?')) near.pop_back();
      if (near.find('.') == std::string::npos) {
        near = absl::StrCat(setting.name.substr(0, setting.name.rfind('.') + 1), near);
      }
      for (const auto& [key, degree] : {std::pair("tensor_model_parallel_size", "tensor"),
                                        {"pipeline_model_parallel_size", "pipe"},
                                        {"context_parallel_size", "context"},
                                        {"expert_model_parallel_size", "expert"}}) {
        if (near.ends_with(absl::StrCat(".", key))) facts->undecided.emplace_back(degree);
      }
      hint = absl::StrCat(near, "=", setting.ValueText());
    }
    const std::string section = setting.name.substr(0, setting.name.rfind('.'));
    facts->broken.push_back({.rule = "no unknown key",
                             .numbers = setting.name,
                             .theirs = absl::StrCat("Failed to parse Hydra overrides: Key '",
                                                    setting.name.substr(section.size() + 1),
                                                    "' is not in struct (", section, ")"),
                             .hint = hint,
                             .where = setting.where});
  }
}

absl::StatusOr<Facts> BridgeReading::Read() {
  AddWords();
  RETURN_IF_ERROR(AddFile());
  if (sources_.launch) {
    for (const Word& word : sources_.launch->arguments) {
      if (!word.text.starts_with('-') && IsBridgeOverride(word.text)) {
        CheckOverride(word);
        locations_.Add(ParseBridgeOverride(word));
      }
    }
  }
  facts_.system = is_bridge() ? "megatron-bridge" : "nemo";
  facts_.form = is_bridge() ? "YAML of a ConfigContainer, and key=value words that override it"
                : kind_ == BridgeKind::kNemo1 ? "YAML of NeMo 1, and words of Hydra"
                                              : "YAML of NeMo 2";
  facts_.unread = sources_.unread;
  ResolveInterpolations(&locations_, &facts_.unread);
  AddDevices();
  Rename();
  if (kind_ == BridgeKind::kNemo1) RenameNemo1();
  if (kind_ == BridgeKind::kNemo2) {
    Unsaid("use_distributed_optimizer", true);
    const std::string target = Text("optim.lr_scheduler._target_");
    Unsaid("lr_decay_style",
           target.find("Cosine") != std::string::npos || target.empty() ? "cosine" : "linear");
  }
  AddHold();
  AddPrecision();
  AddDefaults();

  MegatronForm form;
  form.groups_need_switch = false;
  const Setting* vocab = keys_.Find("vocab_size");
  form.pads_vocab = !is_bridge() || vocab == nullptr || vocab->value.is_null();
  form.words = {"model.tensor_model_parallel_size", "model.pipeline_model_parallel_size",
                "model.context_parallel_size", "train.global_batch_size", "train.micro_batch_size"};
  if (kind_ == BridgeKind::kNemo1) {
    form.words.global = "model.global_batch_size";
    form.words.micro = "model.micro_batch_size";
    form.schedule = "constant";
    form.beta2 = 0.999;
  } else if (kind_ == BridgeKind::kNemo2) {
    form.words = {"trainer.strategy.tensor_model_parallel_size",
                  "trainer.strategy.pipeline_model_parallel_size",
                  "trainer.strategy.context_parallel_size", "data.global_batch_size",
                  "data.micro_batch_size"};
  }
  facts_.model.from = "file";
  std::vector<ListedKeys> lists(BridgeLists().begin(), BridgeLists().end());
  lists.insert(lists.end(), MegatronLists().begin(), MegatronLists().end());
  RETURN_IF_ERROR(FillMegatronFacts(keys_, form, input_, lists, &facts_));
  if (Text("model.should_pad_vocab") == "true") {
    facts_.model.vocab_rule = absl::StrCat("should_pad_vocab: ", facts_.model.vocab_rule);
  }
  std::erase_if(facts_.settings, [](const Setting& s) { return s.where == kUnsaid; });
  // Values as the user wrote them.
  for (Setting& setting : facts_.settings) {
    if (const Setting* location = locations_.Find(setting.name)) setting.value = location->value;
  }
  for (Setting& second : seconds_) {
    const Setting* first = keys_.Find(second.key);
    second.list = first->list;
    second.is_sorted = true;
    if (first->ValueText() != second.ValueText()) {
      second.note = absl::StrCat(first->name, "=", first->ValueText(), " decides");
    } else {
      second.note = first->note;
    }
    facts_.settings.push_back(second);
  }
  CheckLengths(&facts_);
  if (is_bridge() && !locations_.Has("model.num_layers") &&
      !locations_.Has("model.transformer.num_layers")) {
    facts_.unread.push_back(
        "the program's own recipe, which the file and the words change: what it sets is not read");
  }
  for (const char* recipe : {"recipe", "factory"}) {
    if (!flags_.Has(recipe)) continue;
    facts_.unread.push_back(
        absl::StrCat(flags_.Where(recipe), ": a recipe in Python: what it sets is not read"));
  }
  for (Setting flag : flags_.all()) {
    flag.list = IsFileFlag(flag.key) ? List::kTaken : List::kNoEffect;
    if (!IsFileFlag(flag.key) && flag.key != "dryrun" && flag.key != "debug") {
      flag.list = List::kUnknown;
      flag.note = "a flag of the user's own program";
    }
    flag.is_sorted = true;
    facts_.settings.push_back(std::move(flag));
  }
  RefuseUnknown(&facts_);
  if (sources_.launch) {
    const std::vector<Setting>& more = sources_.launch->settings;
    facts_.settings.insert(facts_.settings.begin(), more.begin(), more.end());
  }
  facts_.files = sources_.names;
  return facts_;
}

namespace {

absl::StatusOr<Facts> ReadBridge(Sources& sources, const ForeignInput& input) {
  return BridgeReading(sources, input).Read();
}

}  // namespace

Reader BridgeReader() { return {"megatron-bridge", KnowsBridge, ReadBridge}; }

}  // namespace oneflow::foreign
