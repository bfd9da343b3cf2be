// GPT-NeoX: YAML files that deepy.py merges, and a file of hosts.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/ds_config.h"
#include "tools/foreign/read/hostfile.h"
#include "tools/foreign/read/neox.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

bool IsNeoxFile(const nlohmann::ordered_json& root) {
  if (!root.is_object()) return false;
  int keys = 0;
  for (const auto& [name, value] : root.items()) {
    const std::string key = KeyOfFlag(name);
    if (key == "pipe_parallel_size" || key == "gpt_j_residual" || key == "no_weight_tying") {
      return true;
    }
    for (const char* known : {"model_parallel_size", "num_layers", "pos_emb", "checkpoint_factor",
                              "attention_config", "data_impl", "tokenizer_type", "vocab_file",
                              "hidden_size", "train_micro_batch_size_per_gpu", "lr_decay_iters"}) {
      keys += key == known;
    }
  }
  return keys >= 2 && !root.contains("language_model") && !root.contains("distributed_type") &&
         !root.contains("architectures");
}

bool NeoxKnows(const Sources& sources) {
  if (sources.launch) {
    if (sources.launch->program.find("deepy.py") != std::string::npos) return true;
    if (!sources.launch->program.empty()) return false;
  }
  return std::any_of(sources.files.begin(), sources.files.end(),
                     [](const SettingsFile& file) { return IsNeoxFile(file.root); });
}

struct NeoxWords {
  std::vector<std::string> files;
  std::string folder;
  std::vector<Setting> flags;  // that beat the files
};

// deepy.py SCRIPT [-d FOLDER] FILE... [--hostfile FILE]; a file may come without its ending.
NeoxWords ReadNeoxWords(const Launch& launch) {
  NeoxWords result;
  bool has_script = false;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const Word& word = launch.arguments[i];
    if (!word.text.starts_with('-')) {
      if (!has_script) {
        has_script = true;
      } else {
        const bool ends = word.text.ends_with(".yml") || word.text.ends_with(".json") ||
                          word.text.ends_with(".yaml");
        result.files.push_back(ends ? word.text : word.text + ".yml");
      }
      continue;
    }
    const size_t equal = word.text.find('=');
    Setting flag{.name = word.text.substr(0, equal), .where = word.where};
    flag.key = KeyOfFlag(flag.name);
    if (flag.key == "H") flag.key = "hostfile";
    if (flag.key == "d") flag.key = "conf_dir";
    if (equal != std::string::npos) {
      flag.value = word.text.substr(equal + 1);
    } else if (i + 1 < launch.arguments.size()) {
      flag.value = launch.arguments[++i].text;
    }
    if (flag.key == "conf_dir") result.folder = flag.ValueText();
    result.flags.push_back(std::move(flag));
  }
  return result;
}

absl::Status JoinNeoxFiles(Sources& sources, Settings* settings, Facts* facts) {
  std::vector<const SettingsFile*> files;
  std::vector<Setting> flags;
  if (sources.launch && sources.launch->program.find("deepy.py") != std::string::npos) {
    const NeoxWords words = ReadNeoxWords(*sources.launch);
    for (const std::string& name : words.files) {
      const std::string path = words.folder.empty() ? name : absl::StrCat(words.folder, "/", name);
      ASSIGN_OR_RETURN(const SettingsFile* const file, FindSettingsFile(sources, path));
      if (file == nullptr) {
        facts->questions.push_back(
            {absl::StrCat("what is in ", path), absl::StrCat("the file ", path)});
      } else {
        files.push_back(file);
      }
    }
    flags = words.flags;
  }
  if (files.empty()) {
    for (const SettingsFile& file : sources.files) files.push_back(&file);
  }
  std::set<std::string> seen;
  for (const SettingsFile* file : files) {
    std::set<std::string> here;
    for (const auto& [name, value] : file->root.items()) {
      const std::string key = KeyOfFlag(name);
      here.insert(key);
      if (!seen.contains(key)) continue;
      facts->broken.push_back({.rule = "a key stands in one of the files",
                               .numbers = name,
                               .theirs = absl::StrCat("Conf file ", file->name,
                                                      " has the following duplicate keys "
                                                      "with previously loaded file: ",
                                                      name),
                               .hint = absl::StrCat("leave ", name, " out of one of them"),
                               .where = absl::StrCat(file->name, ":", file->FindLine(name))});
    }
    seen.insert(here.begin(), here.end());
    for (Setting& setting : FlattenSettings(*file)) {
      // Keys of the top may be written with dashes.
      const size_t dot = setting.key.find('.');
      std::replace(setting.key.begin(),
                   setting.key.begin() + static_cast<int64_t>(std::min(dot, setting.key.size())),
                   '-', '_');
      // What stands in deepspeed_extra_args goes into DeepSpeed's JSON.
      constexpr std::string_view kExtra = "deepspeed_extra_args.";
      if (setting.key.starts_with(kExtra)) setting.key.erase(0, kExtra.size());
      settings->Add(std::move(setting));
    }
  }
  for (Setting& flag : flags) settings->Add(std::move(flag));
  return absl::OkStatus();
}

absl::Status ReadNeoxDevices(Settings* settings, Sources& sources, const ForeignInput& input,
                             Facts* facts) {
  const std::optional<std::string> hosts = settings->Text("hostfile");
  HostFilter filter{.include = settings->Text("include").value_or(""),
                    .exclude = settings->Text("exclude").value_or(""),
                    .nodes = settings->Int("num_nodes").value_or(0),
                    .devices_a_node = settings->Int("num_gpus").value_or(0)};
  const std::optional<int64_t> all = settings->Int("global_num_gpus");
  if (input.devices) return absl::OkStatus();
  if (hosts) RETURN_IF_ERROR(ReadHostfile(*hosts, filter, sources, facts));
  if (facts->devices) return absl::OkStatus();
  if (all && *all > 0) {
    facts->devices = all;
    facts->devices_from = absl::StrCat("global_num_gpus: ", *all);
  } else if (filter.devices_a_node > 0 && !hosts) {
    const int64_t nodes = std::max<int64_t>(1, filter.nodes);
    facts->devices = nodes * filter.devices_a_node;
    facts->devices_a_node = filter.devices_a_node;
    facts->devices_from = absl::StrCat("num_nodes ", nodes, " x num_gpus ", filter.devices_a_node);
  }
  return absl::OkStatus();
}

void ReadNeoxPrecision(Settings* settings, DeepSpeedValues* values, Facts* facts) {
  ReadDeepSpeedPrecision(values, facts);
  const auto said = settings->Text("precision");
  if (!said) return;
  const std::string type = absl::AsciiStrToLower(*said);
  const std::string of_section = facts->precision.compute.substr(0, 4);
  if ((of_section == "fp16" && type != "fp16") || (of_section == "bf16" && type != "bfloat16")) {
    const std::string section = of_section;
    facts->broken.push_back(
        {.rule = "precision agrees with the sections fp16 and bf16",
         .numbers = absl::StrCat("precision ", type, " beside ", section, ".enabled"),
         .theirs = absl::StrCat("DeepSpeed ", section, " field was set but precision conflicts"),
         .hint = absl::StrCat("precision: ", section == "bf16" ? "bfloat16" : "fp16"),
         .where = settings->Where("precision")});
    return;
  }
  const std::string kept = values->Text("data_types.grad_accum_dtype").value_or("");
  if (type == "bfloat16" || type == "bf16") {
    facts->precision = {.compute = "bf16", .here = "bf16", .gradients_in_bf16 = kept != "fp32"};
  } else if (type == "fp16") {
    facts->precision = {
        .compute = "fp16, dynamic loss scale", .here = "bf16", .gradients_in_bf16 = kept != "fp32"};
    settings->Put("precision", List::kNoEquivalent,
                  "fp16 with loss scaling; here bf16, of as many bytes, which needs none");
  }
}

void ReadNeoxOptimizer(Settings* settings, DeepSpeedValues* values, Facts* facts) {
  OptimizerFacts& o = facts->optimizer;
  ReadDeepSpeedOptimizer(values, facts);
  if (!settings->Has("optimizer.type")) {
    o.learning_rate = 0.001, o.beta1 = 0.9, o.beta2 = 0.999, o.epsilon = 1e-8;
  }
  if (o.name.starts_with("cpu_")) {
    o.name = "adamw";
    facts->offload.states = facts->offload.update = true;
    settings->Put("optimizer.type", List::kTaken);
  }
  if (!settings->Has("optimizer.params.weight_decay")) {
    o.weight_decay = settings->Number("weight_decay").value_or(0.1);
  }
  o.steps = settings->Int("train_iters");
  o.schedule = absl::AsciiStrToLower(settings->Text("lr_decay_style").value_or("linear"));
  o.min_learning_rate = settings->Number("min_lr").value_or(0);
  const auto decay = settings->Int("lr_decay_iters");
  const auto share = settings->Number("lr_decay_fraction");
  std::optional<int64_t> iterations = decay ? decay : o.steps;
  if (!decay && share && o.steps) {
    iterations = static_cast<int64_t>(std::floor(static_cast<double>(*o.steps) * *share));
  }
  const double warmup = settings->Number("warmup").value_or(0.01);
  if (iterations) {
    o.decay_steps = o.schedule == "constant" ? std::nullopt : iterations;
    o.warmup_steps = static_cast<int64_t>(std::llround(warmup * static_cast<double>(*iterations)));
  }
  if (o.schedule != "constant" && o.schedule != "linear" && o.schedule != "cosine") {
    settings->Put("lr_decay_style", List::kNoEquivalent,
                  "another course of the learning rate; no byte or second");
  }
  if (o.learning_rate && *o.min_learning_rate > *o.learning_rate) {
    facts->broken.push_back(
        {.rule = "min_lr is at most lr",
         .numbers = absl::StrCat(*o.min_learning_rate, " is more than ", *o.learning_rate),
         .theirs = "NeoXArgs.validate_values() min_lr must be smaller or equal lr",
         .hint = absl::StrCat("min_lr: ", *o.learning_rate / 10),
         .where = settings->Where("min_lr")});
  }
}

void ReadNeoxRecompute(Settings* settings, Facts* facts) {
  const bool recomputes = settings->Bool("checkpoint_activations").value_or(false);
  const int64_t blocks = settings->Int("checkpoint_num_layers").value_or(1);
  const bool on_host = settings->Bool("checkpoint_in_cpu").value_or(false);
  if (!recomputes) return;
  facts->recompute = {.what = blocks == 1 ? "block" : absl::StrCat(blocks, " blocks together"),
                      .blocks = "all",
                      .here = "full",
                      .is_exact = blocks == 1};
  facts->offload.activations = on_host;
}

void CheckNeoxStages(Settings* settings, Facts* facts) {
  const std::string& what = facts->sharding.what;
  const bool has_pipeline = settings->Int("pipe_parallel_size").value_or(0) >= 1;
  if (has_pipeline && (what == "gradients" || what == "weights")) {
    facts->broken.push_back(
        {.rule = "pipe_parallel_size of 1 or more needs ZeRO 0 or 1",
         .numbers = absl::StrCat("pipe_parallel_size ", facts->degrees.pipe, " with stage ",
                                 what == "weights" ? 3 : 2),
         .theirs = "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism",
         .hint =
             facts->degrees.pipe == 1 ? "pipe_parallel_size: 0, or \"stage\": 1" : "\"stage\": 1",
         .where = settings->Where("zero_optimization.stage")});
  }
  if (settings->Int("moe_num_experts").value_or(1) > 1 &&
      (what == "gradients" || what == "weights")) {
    facts->broken.push_back({.rule = "a mixture of experts needs ZeRO 0 or 1",
                             .numbers = absl::StrCat("stage ", what == "weights" ? 3 : 2),
                             .theirs = "MoE is not compatible with zero stages 2 and 3",
                             .hint = "\"stage\": 1",
                             .where = settings->Where("zero_optimization.stage")});
  }
  const Setting* save = settings->Find("save");
  if (save != nullptr && !save->value.is_null() && !settings->Has("checkpoint_factor") &&
      !settings->Has("extra_save_iters")) {
    facts->broken.push_back(
        {.rule = "save needs checkpoint_factor or extra_save_iters",
         .numbers = absl::StrCat("save ", save->ValueText()),
         .theirs = "NeoXArgs.validate_values() checkpoint_factor or extra_save_iters must be "
                   "defined if save is defined",
         .hint = "checkpoint_factor: 1000",
         .where = save->where});
  }
  if (facts->degrees.pipe < 2) return;
  facts->schedule.name = "1f1b";
  if (facts->model.model) {
    facts->schedule.stage_layers =
        SpreadNeoxLayers(facts->model.model->layers(), facts->degrees.pipe);
  }
}

void SortNeox(Settings* settings, Facts* facts) {
  std::vector<ListedKeys> lists(NeoxLists().begin(), NeoxLists().end());
  lists.insert(lists.end(), DeepSpeedLists().begin(), DeepSpeedLists().end());
  settings->Sort(lists);
  for (const Setting& setting : settings->all()) {
    if (setting.list != List::kUnknown || setting.key.find('.') != std::string::npos) continue;
    facts->broken.push_back(
        {.rule = "no unknown key",
         .numbers = setting.name,
         .theirs = absl::StrCat("NeoXArgs.__init__() got an unexpected keyword argument '",
                                setting.key, "'"),
         .hint = setting.note.empty() ? "leave it out" : setting.note,
         .where = setting.where});
  }
}

absl::StatusOr<Facts> ReadNeox(Sources& sources, const ForeignInput& input) {
  Facts facts;
  facts.system = "gpt-neox";
  Settings settings("gpt-neox");
  DeepSpeedValues values(&settings);
  RETURN_IF_ERROR(JoinNeoxFiles(sources, &settings, &facts));
  settings.Text("conf_dir");
  ReadDevices(sources, input, &facts);
  RETURN_IF_ERROR(ReadNeoxDevices(&settings, sources, input, &facts));

  facts.degrees.tensor = std::max<int64_t>(1, settings.Int("model_parallel_size").value_or(1));
  facts.degrees.pipe = std::max<int64_t>(1, settings.Int("pipe_parallel_size").value_or(0));
  facts.sequence_parallel =
      settings.Bool("sequence_parallel").value_or(false) && facts.degrees.tensor > 1;
  RETURN_IF_ERROR(ReadNeoxModel(&settings, input, &facts));
  ReadZero(&values, &facts);
  ReadNeoxPrecision(&settings, &values, &facts);
  ReadNeoxOptimizer(&settings, &values, &facts);
  ReadNeoxRecompute(&settings, &facts);
  CheckNeoxStages(&settings, &facts);

  facts.batch.micro_batches = 1;  // gradient_accumulation_steps by default
  const bool batch_is_broken = ReadDeepSpeedBatch(&values, &facts);
  const size_t before = facts.broken.size();
  CompleteDeepSpeedDegrees(batch_is_broken, &facts);
  for (size_t i = before; i < facts.broken.size(); ++i) {
    BrokenRule& rule = facts.broken[i];
    if (!facts.devices || rule.rule.find("tensor x pipe") == std::string::npos) continue;
    rule.theirs =
        absl::StrCat("(global_num_gpus / pp_size) / mp_size [(", *facts.devices, " / ",
                     facts.degrees.pipe, ") / ", facts.degrees.tensor, "] must be a whole number");
    rule.where = settings.Where("model_parallel_size");
  }
  SortNeox(&settings, &facts);
  RETURN_IF_ERROR(settings.status());
  if (sources.launch) AddSettings(sources.launch->settings, &facts);
  AddSettings(settings.all(), &facts);
  facts.form = "YAML files that are read together";
  facts.files = sources.names;
  facts.unread = sources.unread;
  return facts;
}

}  // namespace

Reader NeoxReader() { return {"gpt-neox", NeoxKnows, ReadNeox}; }

}  // namespace oneflow::foreign
