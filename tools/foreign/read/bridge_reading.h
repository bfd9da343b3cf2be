// The steps of the reader of Megatron-Bridge and NeMo. Internal to bridge.cc and bridge_rename.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/read/bridge_parts.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {

// The place of what the user did not write: such settings are no part of the facts.
inline constexpr const char* kUnsaid = "(default)";

// Places of files and words become settings by Megatron's keys, and those become facts.
class BridgeReading {
 public:
  BridgeReading(Sources& sources, const ForeignInput& input) : sources_(sources), input_(input) {}
  absl::StatusOr<Facts> Read();

 private:
  absl::Status AddFile();
  void AddWords();
  void CheckOverride(const Word& word);
  void AddDevices();
  void Rename();
  void RenameNemo1();
  void RenameOptimizer(const std::string& name);
  void AddHold();
  void AddPrecision();
  void AddDefaults();
  void Unsaid(const std::string& key, nlohmann::json value) {
    if (keys_.Has(key)) return;
    keys_.Add({.name = key, .key = key, .value = std::move(value), .where = kUnsaid});
  }
  std::string Text(const char* location) const {
    const Setting* setting = locations_.Find(location);
    return setting == nullptr || setting->value.is_null() ? "" : setting->ValueText();
  }
  void CheckLengths(Facts* facts);
  void RefuseUnknown(Facts* facts);
  bool is_bridge() const { return kind_ == BridgeKind::kBridge; }

  Sources& sources_;
  const ForeignInput& input_;
  BridgeKind kind_ = BridgeKind::kBridge;
  Settings flags_{"megatron-bridge"};      // of the program, beside overrides
  Settings locations_{"megatron-bridge"};  // by their places
  Settings keys_{"megatron-bridge"};       // by Megatron's keys
  std::vector<Setting> seconds_;           // places whose key another place of a higher rank has
  Facts facts_;
};

}  // namespace oneflow::foreign
