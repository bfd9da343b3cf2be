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
  bool is_2026 = false;             // defaults are those of 2026
  std::string form, model_from;
  std::vector<Setting> launcher;
  const nlohmann::ordered_json* root = nullptr;  // of the file
  const SettingsFile* file = nullptr;
  Facts facts;  // system, files, devices, unread and what was found broken before
};

absl::StatusOr<Facts> MakeTitanFacts(const ForeignInput& input, TitanSources* titan);

}  // namespace oneflow::foreign
