// Settings of torchtitan become facts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/read.h"
#include "tools/foreign/read/settings.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

// What the files and the command give, not interpreted yet.
struct TitanSources {
  Settings settings{"torchtitan"};  // keys are TitanKey's
  Settings named{"torchtitan"};     // of a configuration by name: they stand behind `settings`
  std::string named_from;           // "llama3_8b"
  bool is_named_unknown = false;    // a configuration by a name that is not known here
  bool lacks_file = false;          // the command's file is not there
  bool is_2026 = false;             // defaults are those of 2026
  std::string form, model_from;
  std::vector<Setting> launcher;
  const nlohmann::ordered_json* root = nullptr;  // of the file
  const SettingsFile* file = nullptr;
  Facts facts;  // system, files, devices, unread and what was found broken before
};

// Facts from settings, each group by a function of its own: degrees and batches first, then what
// depends on them.
class TitanFacts {
 public:
  TitanFacts(const ForeignInput& input, TitanSources* titan)
      : input_(input), titan_(*titan), given_(titan->settings), facts_(titan->facts) {}

  absl::StatusOr<Facts> Make();

 private:
  // Values as torchtitan sees them: what the user gave, else what the named configuration sets.
  std::optional<int64_t> Int(std::string_view key) {
    const std::optional<int64_t> value = given_.Int(key);
    return value ? value : titan_.named.Int(key);
  }
  std::optional<double> Number(std::string_view key) {
    const std::optional<double> value = given_.Number(key);
    return value ? value : titan_.named.Number(key);
  }
  std::string Text(std::string_view key, std::string_view otherwise) {
    std::optional<std::string> value = given_.Text(key);
    if (!value) value = titan_.named.Text(key);
    return value.value_or(std::string(otherwise));
  }
  bool Bool(std::string_view key, bool otherwise) {
    std::optional<bool> value = given_.Bool(key);
    if (!value) value = titan_.named.Bool(key);
    return value.value_or(otherwise);
  }
  // A degree: at least 1, but `least`.
  int64_t Degree(std::string_view key, int64_t least = 1);
  std::string FindWhere(std::string_view key) const {
    const Setting* setting = given_.Find(key);
    return setting == nullptr ? "" : setting->where;
  }
  // True of a pipe of before April 2025.
  bool HasOldPipe() const {
    const Setting* setting = given_.Find("parallelism.pipeline_parallel_degree");
    return setting != nullptr && (setting->name.find("experimental.") != std::string::npos ||
                                  setting->name.find("training.") != std::string::npos);
  }
  void Break(std::string rule, std::string numbers, std::string theirs, std::string hint,
             std::string_view key) {
    facts_.broken.push_back(
        {std::move(rule), std::move(numbers), std::move(theirs), std::move(hint), FindWhere(key)});
  }

  void ReadDegrees();
  void CheckWorld();
  void ReadBatch();
  void ReadTokens(int64_t slots);
  void ReadSchedule();
  void ReadStages(bool is_single, bool is_v);
  std::vector<std::vector<std::string>> ModulesOfParts();
  void ReadSharding();
  void ReadRecompute();
  void ReadPrecision();
  void ReadConverters();
  void ReadOptimizer();
  absl::Status ReadModel();
  void CheckPositions();
  void SortSettings();

  const ForeignInput& input_;
  TitanSources& titan_;
  Settings& given_;
  Facts& facts_;
  int64_t replicate_ = 1, shard_ = -1;
  int64_t local_ = 0;  // sequences of a forward of all of the pipe's micro-batches
  std::string schedule_;
};

absl::StatusOr<Facts> MakeTitanFacts(const ForeignInput& input, TitanSources* titan);

}  // namespace oneflow::foreign
