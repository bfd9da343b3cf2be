// Words behind a launcher: TrainingArguments of transformers, and what users' own scripts call the
// same things. A script's code is not read, so of its own words only the common spellings of
// model, sequence, batch, checkpointing and optimizer are understood.
//
//   TrainerWords words = ReadTrainerWords(&settings, kTrainer);  // settings of --flags, or of YAML
//   words.model, words.sequence, words.optimizer.learning_rate
//
// Next: ds_config.h, whose "auto" these words fill in.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/read.h"
#include "tools/foreign/read/settings.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

// Whose defaults hold for what is not said.
enum class ScriptKind {
  kTrainer,    // transformers' Trainer: TrainingArguments
  kTrl,        // the same, with the defaults of trl: bf16, checkpointing
  kNoTrainer,  // run_clm_no_trainer.py and scripts like it
  kOwn,        // a user's own: no defaults
};

// By the program's name, else by its words.
ScriptKind FindScriptKind(std::string_view program, const Settings& words);

struct TrainerWords {
  ScriptKind kind = ScriptKind::kOwn;
  std::string model;  // a folder, or a public name; "" if none
  std::optional<int64_t> sequence, micro, accumulation, global;
  bool syncs_each_batch = false;  // gradients are reduced in each micro-batch
  std::optional<bool> bf16, fp16, checkpointing;
  std::string deepspeed;  // the file of its JSON
  // With Trainer's defaults, where it is one; else what is said.
  OptimizerFacts optimizer;
  std::optional<int64_t> tensor, pipe, context;  // of own words

  bool is_trainer() const { return kind == ScriptKind::kTrainer || kind == ScriptKind::kTrl; }
};

// Takes the words that it knows. A bad value of TrainingArguments is an error in
// settings->status(); one of a user's own word is left alone.
TrainerWords ReadTrainerWords(Settings* settings, ScriptKind kind);

// Gives all other words their lists. Those that TrainingArguments and the scripts of transformers
// and trl do not have are the user's own; they are unknown, and a broken rule, where the program is
// one of these scripts or the word is nearly one of TrainingArguments.
void SortTrainerWords(const TrainerWords& words, std::string_view program, Settings* settings,
                      Facts* facts);

// Files among the sources by what they are, and the words of the launched program.
struct HfSources {
  std::optional<SettingsFile> accelerate, deepspeed, fsdp;
  std::string deepspeed_where;       // "run.sh:3: --deepspeed=ds.json"; "" if given as a file
  std::string model_config;          // the path of a model's config.json
  std::vector<std::string> missing;  // files that words name and nobody gave
  Settings words{"hf-trainer"};
  std::string program;
};
absl::StatusOr<HfSources> SortSources(Sources& sources);

// What a file of JSON or YAML is by its keys.
enum class HfFile { kAccelerate, kDeepSpeed, kWords, kModelConfig, kOther };
HfFile FindHfFile(const nlohmann::ordered_json& root);

// True if the launched program is given a file of words, as "train.py sft.yaml" is;
// `has_deepspeed`: one that names a configuration of DeepSpeed.
bool NamesFileOfWords(const Sources& sources, bool* has_deepspeed);

// Fills in facts->model and facts->sequence from what the words, the files and the user say, or
// asks.
absl::Status ReadNamedModel(const TrainerWords& words, const HfSources& found,
                            const Sources& sources, const ForeignInput& input, Facts* facts);

// Facts that the words say where nothing else does: optimizer, checkpointing, precision.
void UseTrainerWords(const TrainerWords& words, Facts* facts);

// Devices that the user says, else a launcher.
void ReadDevices(const Sources& sources, const ForeignInput& input, Facts* facts);

// Settings of a launcher and of a reader, in the order that they are shown.
void AddSettings(const std::vector<Setting>& settings, Facts* facts);

std::span<const ListedKeys> TrainerLists();  // of TrainingArguments
std::span<const ListedKeys> ScriptLists();   // of the scripts of transformers and trl

}  // namespace oneflow::foreign
