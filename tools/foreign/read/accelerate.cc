// accelerate's YAML and launcher, and TrainingArguments that neither it nor DeepSpeed launches.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/accelerate.h"
#include "tools/foreign/read/ds_config.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

// Fields of ClusterConfig: others at the top of the file are refused.
constexpr std::string_view kAccTop[] = {
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug",
    "num_processes", "machine_rank", "num_machines", "gpu_ids", "main_process_ip",
    "main_process_port", "rdzv_backend", "same_network", "main_training_function",
    "enable_cpu_affinity", "fp8_config", "deepspeed_config", "fsdp_config", "parallelism_config",
    "megatron_lm_config", "mpirun_config", "downcast_bf16", "tpu_name", "tpu_zone",
    "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    "dynamo_config", "fp16", "dynamo_backend",
    // Of older releases.
    "ipex_config", "tpu_cluster"};

// The name that `accelerate launch` has for a place in the file.
std::string AccKey(const std::string& location) {
  const size_t dot = location.find('.');
  if (dot == std::string::npos) return location;
  const std::string section = location.substr(0, dot), key = location.substr(dot + 1);
  for (const char* prefix : {"fsdp", "fp8", "dynamo", "parallelism_config", "megatron_lm"}) {
    const std::string named = std::string(prefix) == "parallelism_config"
                                  ? "parallelism_config"
                                  : absl::StrCat(prefix, "_config");
    if (section != named) continue;
    return key.starts_with(prefix) ? key : absl::StrCat(prefix, "_", key);
  }
  return key;
}

void CheckAccTop(const SettingsFile& file, Facts* facts) {
  for (const auto& [key, value] : file.root.items()) {
    const std::string name = key;
    if (std::find(std::begin(kAccTop), std::end(kAccTop), name) != std::end(kAccTop)) continue;
    const std::string near =
        Nearest(name, std::vector<std::string>(std::begin(kAccTop), std::end(kAccTop)));
    facts->broken.push_back(
        {.rule = "no unknown key at the top of accelerate's file",
         .numbers = name,
         .theirs = absl::StrCat("The config file at ", file.name, " had unknown keys (['", name,
                                "']), please try upgrading your `accelerate` version or fix (and "
                                "potentially remove) these keys from your config file."),
         .hint = near.empty() ? "leave it out" : near,
         .where = absl::StrCat(file.name, ":", file.FindLine(name))});
  }
}

bool AccKnows(const Sources& sources) {
  for (const SettingsFile& file : sources.files) {
    const HfFile kind = FindHfFile(file.root);
    if (kind == HfFile::kAccelerate || kind == HfFile::kWords) return true;
  }
  if (!sources.launch) return false;
  if (sources.launch->launcher == "accelerate") return true;
  bool in_words = false;
  int trainers = NamesFileOfWords(sources, &in_words) ? 2 : 0;
  for (const Word& word : sources.launch->arguments) {
    const std::string key = KeyOfFlag(word.text.substr(0, word.text.find('=')));
    if (!word.text.starts_with("--")) continue;
    if (key == "num_layers" || key == "tensor_model_parallel_size") return false;
    trainers += key == "per_device_train_batch_size" || key == "model_name_or_path" ||
                key == "output_dir" || key == "lr_scheduler_type";
  }
  return trainers >= 2;
}

enum class AccType { kUnknown, kNone, kDdp, kFsdp, kDeepSpeed, kMegatron, kOther };

AccType ReadAccType(AccelerateSettings* said, Facts* facts) {
  Settings& settings = said->settings;
  const std::string text = absl::AsciiStrToUpper(settings.Text("distributed_type").value_or(""));
  // A switch of the launcher beats the file.
  if (settings.Bool("use_fsdp").value_or(false)) return AccType::kFsdp;
  if (settings.Bool("use_deepspeed").value_or(false)) return AccType::kDeepSpeed;
  if (settings.Bool("use_megatron_lm").value_or(false)) return AccType::kMegatron;
  if (settings.Bool("multi_gpu").value_or(false)) return AccType::kDdp;
  if (text == "FSDP") return AccType::kFsdp;
  if (text == "DEEPSPEED") return AccType::kDeepSpeed;
  if (text == "MEGATRON_LM") return AccType::kMegatron;
  if (text == "MULTI_GPU") return AccType::kDdp;
  if (text == "NO") return AccType::kNone;
  if (text.starts_with("MULTI_") || text == "XLA" || text == "TPU") {
    settings.Put("distributed_type", List::kNoEquivalent,
                 "devices other than GPUs; here planned as data parallel");
    return AccType::kOther;
  }
  constexpr std::string_view kOthers[] = {"", "AMAZON_SAGEMAKER", "HPU"};
  if (std::find(std::begin(kOthers), std::end(kOthers), text) == std::end(kOthers)) {
    const std::string near = Nearest(text, {"FSDP", "DEEPSPEED", "MULTI_GPU", "MEGATRON_LM", "NO"});
    facts->broken.push_back(
        {.rule = "distributed_type is one that accelerate has",
         .numbers = text,
         .theirs = absl::StrCat("'", text, "' is not a valid DistributedType"),
         .hint = absl::StrCat("distributed_type: ",
                              near.empty() ? "FSDP, DEEPSPEED, MULTI_GPU or 'NO'" : near),
         .where = settings.Where("distributed_type")});
  }
  if (said->has_file && text.empty()) {
    facts->broken.push_back({.rule = "the file says distributed_type",
                             .numbers = "there is none",
                             .theirs = "A `distributed_type` must be specified in the config file.",
                             .hint = "distributed_type: FSDP, DEEPSPEED, MULTI_GPU or 'NO'"});
  }
  return AccType::kUnknown;
}

void ReadAccDevices(Settings* settings, AccType type, const ForeignInput& input, Facts* facts) {
  const std::optional<int64_t> machines = settings->Int("num_machines");
  const std::optional<int64_t> processes = settings->Int("num_processes");
  if (input.devices) return;
  if (processes && *processes > 0) {
    facts->devices = processes;
    const Setting* setting = settings->Find("num_processes");
    facts->devices_from =
        absl::StrCat(setting->name, setting->name.starts_with("--") ? " " : ": ", *processes);
    if (machines && *machines > 0) {
      if (*processes % *machines == 0) {
        facts->devices_a_node = *processes / *machines;
      } else {
        const int64_t more = (*processes / *machines + 1) * *machines;
        facts->broken.push_back(
            {.rule = "num_processes must be a multiple of num_machines",
             .numbers = absl::StrCat(*processes, " is not a multiple of ", *machines),
             .theirs = absl::StrCat("starts ", *processes / *machines, " on each machine, ",
                                    *processes / *machines * *machines, " in all"),
             .hint = absl::StrCat("num_processes: ", more),
             .where = settings->Where("num_processes")});
      }
    }
  } else if (type == AccType::kNone && !facts->devices) {
    facts->devices = 1, facts->devices_from = "distributed_type: NO";
  }
}

void ReadAccPrecision(Settings* settings, const TrainerWords& words, AccType type, Facts* facts) {
  std::string text = absl::AsciiStrToLower(settings->Text("mixed_precision").value_or("no"));
  if (settings->Bool("fp16").value_or(false) && text == "no") text = "fp16";
  if (text.empty() || text == "false" || text == "null") text = "no";  // YAML's no
  if (text != "no" && text != "bf16" && text != "fp16" && text != "fp8") {
    facts->broken.push_back(
        {.rule = "mixed_precision is no, fp16, bf16 or fp8",
         .numbers = text,
         .theirs = absl::StrCat("Unknown mixed_precision mode: ", text,
                                ". Choose between ['no', 'fp8', 'fp16', 'bf16']"),
         .hint = absl::StrCat("mixed_precision: ", text.starts_with("b") ? "bf16" : "fp16"),
         .where = settings->Where("mixed_precision")});
  }
  const bool of_words = words.bf16.value_or(false) || words.fp16.value_or(false);
  if (!of_words) {
    if (text == "bf16") {
      facts->precision = {.compute = "bf16", .here = "bf16"};
    } else if (text == "fp16") {
      facts->precision = {.compute = "fp16, dynamic loss scale", .here = "bf16"};
      settings->Put("mixed_precision", List::kNoEquivalent,
                    "fp16 with loss scaling; here bf16, of as many bytes, which needs none");
    } else if (text == "fp8") {
      facts->precision = {.compute = "fp8 in products, bf16 elsewhere", .here = "bf16"};
      settings->Put("mixed_precision", List::kNoEquivalent,
                    "products in fp8: half the bytes of operands, up to twice the rate");
    }
  }
  // FSDP reduces gradients in the type of the forward.
  facts->precision.gradients_in_bf16 =
      facts->precision.here == "bf16" && (type == AccType::kFsdp || type == AccType::kDeepSpeed);
}

// Of the numbers that DeepSpeed's section has itself, or of a JSON: `given`, or one it names. True
// if a rule of the batch is broken.
absl::StatusOr<bool> ReadAccDeepSpeed(Settings* settings, const TrainerWords& words,
                                      const std::optional<SettingsFile>& given, Sources& sources,
                                      Settings* json, Facts* facts) {
  const auto file = settings->Text("deepspeed_config_file");
  const auto stage = settings->Int("zero_stage");
  const auto gas = settings->Text("gradient_accumulation_steps");
  const auto clip = settings->Text("gradient_clipping");
  const std::string states = settings->Text("offload_optimizer_device").value_or("none");
  const std::string weights = settings->Text("offload_param_device").value_or("none");
  settings->Put("zero3_init_flag", List::kNoEffect);
  settings->Put("zero3_save_16bit_model", List::kNoEffect);
  DeepSpeedValues values(json);
  if (given) {  // by --deepspeed of TrainingArguments, which beats accelerate's section
    for (Setting& setting : FlattenSettings(*given)) json->Add(std::move(setting));
  } else if (file && *file != "none") {
    for (const char* key :
         {"gradient_accumulation_steps", "gradient_clipping", "zero_stage",
          "offload_optimizer_device", "offload_param_device", "offload_param_nvme_path",
          "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"}) {
      const Setting* setting = settings->Find(key);
      if (setting == nullptr || setting->name.starts_with("--")) continue;
      facts->broken.push_back(
          {.rule = "beside deepspeed_config_file the file says nothing that the JSON says",
           .numbers = setting->name,
           .theirs = "When using `deepspeed_config_file`, the following accelerate config "
                     "variables will be ignored: ['gradient_accumulation_steps', ...]. Please "
                     "specify them appropriately in the DeepSpeed config file.",
           .hint = absl::StrCat("leave ", setting->name, " out, and say it in ", *file),
           .where = setting->where});
    }
    ASSIGN_OR_RETURN(const SettingsFile* const found, FindSettingsFile(sources, *file));
    if (found == nullptr) {
      facts->questions.push_back(
          {absl::StrCat("what is in ", *file), absl::StrCat("the file ", *file)});
    } else {
      for (Setting& setting : FlattenSettings(*found)) json->Add(std::move(setting));
    }
  } else {
    // What accelerate makes of its numbers.
    const auto add = [&](const char* key, nlohmann::json value) {
      json->Add({.name = key, .key = key, .value = std::move(value), .where = ""});
    };
    add("train_batch_size", "auto");
    add("train_micro_batch_size_per_gpu", "auto");
    add("zero_optimization.stage", stage.value_or(2));
    if (gas) add("gradient_accumulation_steps", *gas);
    if (clip) add("gradient_clipping", *clip);
    if (states != "none") add("zero_optimization.offload_optimizer.device", states);
    if (weights != "none") add("zero_optimization.offload_param.device", weights);
    for (const auto& [device, key] : {std::pair{states, "offload_optimizer_device"},
                                      std::pair{weights, "offload_param_device"}}) {
      if (device != "nvme") continue;
      settings->Put(key, List::kNoEquivalent, "rests on NVMe; here in the host's memory");
    }
  }
  ReadDeepSpeedDegrees(&values, facts);
  // Scripts with accelerate alone fill "auto" in from what they prepare.
  if (words.is_trainer()) {
    FillFromTrainer(words, *facts, &values, facts);
  } else {
    if (words.micro) values.Fill("train_micro_batch_size_per_gpu", *words.micro);
    values.Fill("gradient_accumulation_steps", words.accumulation.value_or(1));
    if (words.optimizer.clip) values.Fill("gradient_clipping", *words.optimizer.clip);
  }
  const PrecisionFacts precision = facts->precision;
  ReadZero(&values, facts);
  ReadDeepSpeedPrecision(&values, facts);
  if (facts->precision.here == "f32") facts->precision = precision;
  ReadDeepSpeedOptimizer(&values, facts);
  if (!json->Has("gradient_clipping") && words.is_trainer()) {
    facts->optimizer.clip = words.optimizer.clip;
  }
  facts->batch.micro_batches = words.accumulation;
  const bool is_broken = ReadDeepSpeedBatch(&values, facts);
  SortDeepSpeed(&values, facts);
  return is_broken;
}

void CompleteAccBatch(Facts* facts) {
  BatchFacts& batch = facts->batch;
  if (!batch.global && !batch.micro_batches) batch.micro_batches = 1;
  if (!batch.micro && !batch.global) {
    facts->questions.push_back({"how many sequences a step takes", "--batch=N"});
  }
}

absl::StatusOr<Facts> ReadAcc(Sources& sources, const ForeignInput& input) {
  ASSIGN_OR_RETURN(HfSources found, SortSources(sources));
  Facts facts;
  const Launch* launch = sources.launch ? &*sources.launch : nullptr;
  // The launcher's file is named by its own flag.
  for (const Setting& setting : launch == nullptr ? std::vector<Setting>() : launch->settings) {
    if (setting.key != "accelerate.config_file") continue;
    ASSIGN_OR_RETURN(const SettingsFile* const file,
                     FindSettingsFile(sources, setting.ValueText()));
    if (file == nullptr) {
      found.missing.push_back(setting.ValueText());
    } else {
      found.accelerate = *file;
    }
  }
  AccelerateSettings said =
      JoinAccelerate(found.accelerate ? &*found.accelerate : nullptr, launch, &facts);
  const bool is_accelerate = said.has_file || (launch && launch->launcher == "accelerate");
  facts.system = is_accelerate ? "accelerate" : "hf-trainer";
  Settings& settings = said.settings;
  settings.Text("config_file");
  AccType type = ReadAccType(&said, &facts);
  ReadDevices(sources, input, &facts);
  ReadAccDevices(&settings, type, input, &facts);

  Settings own = found.words;
  const TrainerWords words = ReadTrainerWords(&own, FindScriptKind(found.program, own));
  UseTrainerWords(words, &facts);
  if (!is_accelerate) facts.together_with.clear();
  RETURN_IF_ERROR(ReadNamedModel(words, found, sources, input, &facts));
  facts.batch = {.global = words.global, .micro = words.micro, .micro_batches = words.accumulation};

  // axolotl's files have an empty "fsdp:".
  const Setting* fsdp = own.Find("fsdp");
  const bool words_fsdp =
      !is_accelerate && fsdp != nullptr && fsdp->ValueText() != "false" &&
      (fsdp->is_switch || (!fsdp->value.is_null() && !fsdp->ValueText().empty()));
  if (words_fsdp) type = AccType::kFsdp;
  // --deepspeed of TrainingArguments.
  std::optional<SettingsFile> given;
  if (!found.deepspeed_where.empty() && words.is_trainer()) given = found.deepspeed;
  if (given) type = AccType::kDeepSpeed;
  ReadAccPrecision(&settings, words, type, &facts);
  int64_t replicas = 1;
  ReadParallelismConfig(&settings, &facts, &replicas);
  settings.Bool("use_parallelism_config");
  Settings json("deepspeed"), options("fsdp_config");
  bool batch_is_broken = false, shows_json = false;
  if (type == AccType::kFsdp) {
    FsdpChoice choice = words_fsdp ? ReadTrainerFsdp(found, &own, &options, &facts)
                                   : ReadAccelerateFsdp(&settings, &facts);
    choice.replicas = std::max(choice.replicas, replicas);
    ApplyFsdp(choice, &facts);
  } else if (type == AccType::kDeepSpeed) {
    facts.together_with.insert(facts.together_with.begin(), "deepspeed");
    ASSIGN_OR_RETURN(batch_is_broken,
                     ReadAccDeepSpeed(&settings, words, given, sources, &json, &facts));
    shows_json = given || settings.Has("deepspeed_config_file");
  } else if (type == AccType::kMegatron) {
    facts.together_with.insert(facts.together_with.begin(), "megatron-lm");
    ReadAccelerateMegatron(&settings, &facts);
  } else if (type == AccType::kUnknown && is_accelerate && !said.has_file && !facts.devices) {
    facts.questions.push_back(
        {"what accelerate is configured to", "its YAML (accelerate config), as a further file"});
  }
  if (type != AccType::kDeepSpeed) {
    CompleteAccBatch(&facts);
    if (words.syncs_each_batch) {
      facts.sharding.reduce = "each micro-batch";
      facts.sharding.note.clear();
    }
  }

  const std::optional<int64_t> data = facts.degrees.data;
  if (data) {  // A broken rule of parallelism_config is told already.
    facts.sharding.ways = *data / std::max<int64_t>(1, facts.sharding.replicas);
  } else if (type == AccType::kDeepSpeed) {
    CompleteDeepSpeedDegrees(batch_is_broken, &facts);
  } else {
    CompleteDegrees({.tensor = "tp_size",
                     .pipe = "pp_degree",
                     .context = "cp_size",
                     .global = "--global_batch_size",
                     .micro = "--per_device_train_batch_size"},
                    &facts);
  }
  for (const std::string& file : found.missing) {
    facts.questions.push_back({absl::StrCat("what is in ", file), absl::StrCat("the file ", file)});
  }
  settings.Sort(AccelerateLists());
  SortTrainerWords(words, found.program, &own, &facts);
  RETURN_IF_ERROR(settings.status());
  RETURN_IF_ERROR(own.status());
  RETURN_IF_ERROR(json.status());
  RETURN_IF_ERROR(options.status());
  AddSettings(said.of_others, &facts);
  AddSettings(settings.all(), &facts);
  AddSettings(said.beaten, &facts);
  if (shows_json) AddSettings(json.all(), &facts);
  if (found.fsdp) AddSettings(options.all(), &facts);
  AddSettings(own.all(), &facts);
  facts.form =
      absl::StrCat(said.has_file ? "accelerate YAML, " : "",
                   words.is_trainer() ? "words of TrainingArguments" : "words of a script");
  facts.files = sources.names;
  facts.unread = sources.unread;
  return facts;
}

}  // namespace

AccelerateSettings JoinAccelerate(const SettingsFile* file, const Launch* launch, Facts* facts) {
  AccelerateSettings joined;
  if (file != nullptr) {
    joined.has_file = true;
    CheckAccTop(*file, facts);
    for (Setting& setting : FlattenSettings(*file)) {
      setting.key = AccKey(setting.key);
      joined.settings.Add(std::move(setting));
    }
  }
  if (launch == nullptr) return joined;
  const std::string prefix = "accelerate.";
  for (Setting setting : launch->settings) {
    if (!setting.key.starts_with(prefix)) {
      joined.of_others.push_back(std::move(setting));
      continue;
    }
    setting.key = setting.key.substr(prefix.size());
    setting.list = List::kUnknown;
    setting.is_sorted = false;
    if (const Setting* before = joined.settings.Find(setting.key); before != nullptr) {
      joined.beaten.push_back(*before);
      joined.beaten.back().list = List::kTaken;
      joined.beaten.back().is_sorted = true;
      joined.beaten.back().note = absl::StrCat("replaced by ", setting.name);
    }
    joined.settings.Add(std::move(setting));
  }
  return joined;
}

Reader AccelerateReader() { return {"accelerate", AccKnows, ReadAcc}; }

}  // namespace oneflow::foreign
