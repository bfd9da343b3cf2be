// DeepSpeed's JSON, also where it stands in accelerate's file or among GPT-NeoX's keys.
//
//   DeepSpeedValues values(&settings);           // keys: "zero_optimization.stage"
//   values.Fill("train_batch_size", 64, "...");  // in place of "auto"
//   ReadZero(&values, &facts);
//
// Numbers that are not said are DeepSpeed's defaults (0.19).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/hf_trainer.h"
#include "tools/foreign/read/settings.h"

namespace oneflow::foreign {

// Settings of which some say "auto".
class DeepSpeedValues {
 public:
  explicit DeepSpeedValues(Settings* settings) : settings_(settings) {}

  // What "auto" of a key stands for.
  void Fill(std::string_view key, nlohmann::json value);

  // As of Settings. An "auto" that nothing fills in is absent, and kept in unfilled().
  std::optional<int64_t> Int(std::string_view key);
  std::optional<double> Number(std::string_view key);
  std::optional<std::string> Text(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  const nlohmann::json* Value(std::string_view key);
  bool IsAuto(std::string_view key) const;
  bool Has(std::string_view key) const { return settings_->Has(key); }
  void Put(std::string_view key, List list, std::string note = "") {
    settings_->Put(key, list, std::move(note));
  }
  std::string Where(std::string_view key) const { return settings_->Where(key); }

  Settings* settings() const { return settings_; }
  const std::vector<std::string>& unfilled() const { return unfilled_; }

 private:
  // Null: the setting itself counts.
  const nlohmann::json* Filled(std::string_view key);

  Settings* settings_;
  std::map<std::string, nlohmann::json, std::less<>> filled_;
  std::vector<std::string> unfilled_;
};

// Fills in what transformers' Trainer does, and adds a broken rule for numbers that are neither
// "auto" nor its own.
void FillFromTrainer(const TrainerWords& words, const Facts& facts, DeepSpeedValues* values,
                     Facts* broken);

// `stage` where the JSON says none.
void ReadZero(DeepSpeedValues* values, Facts* facts, int64_t stage = 0);
void ReadDeepSpeedPrecision(DeepSpeedValues* values, Facts* facts);
// The sections optimizer and scheduler, and gradient_clipping; what they leave open stays as it is.
void ReadDeepSpeedOptimizer(DeepSpeedValues* values, Facts* facts);
// Degrees of tensor_parallel, sequence_parallel_size and experts.
void ReadDeepSpeedDegrees(DeepSpeedValues* values, Facts* facts);

// The three numbers of a batch, of which two give the third; `data` is known if the devices are.
// A contradiction is a broken rule.
struct BatchKeys {
  std::string global = "train_batch_size", micro = "train_micro_batch_size_per_gpu",
              accumulation = "gradient_accumulation_steps";
};
void CompleteBatch(const BatchKeys& keys, const std::string& where,
                   std::optional<int64_t> accumulation, Facts* facts);
// The same from the JSON. True if a rule of the batch is broken.
bool ReadDeepSpeedBatch(DeepSpeedValues* values, Facts* facts);

// GPUs by (tensor x pipe x context), if they divide.
std::optional<int64_t> DataDegree(const Facts& facts);

// CompleteDegrees, without the rule of a batch that is told already.
void CompleteDeepSpeedDegrees(bool batch_is_broken, Facts* facts);

// Sorts the settings, and adds a broken rule for each unknown key of a section that refuses them.
void SortDeepSpeed(DeepSpeedValues* values, Facts* facts);

std::span<const ListedKeys> DeepSpeedLists();

}  // namespace oneflow::foreign
