// Typed reading of a configuration's JSON object, with errors that name key and value. Internal to
// this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace oneflow {

// The first mistake is kept in status(); after it every key reads as its default. A key with the
// value null counts as absent.
class ConfigFields {
 public:
  using Json = nlohmann::ordered_json;

  // `prefix` is put before keys in errors: "rope_scaling.".
  ConfigFields(const Json& object, std::string where, std::string prefix = "")
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  bool Has(const char* key) const { return Find(key) != nullptr; }
  // True also if the value is null.
  bool Contains(const char* key) const { return object_.contains(key); }
  const Json* Find(const char* key) const;

  // A size: 1 to `most`. Without a default it must be there.
  int64_t Size(const char* key, std::optional<int64_t> otherwise = std::nullopt,
               int64_t most = int64_t{1} << 32);
  double Number(const char* key, std::optional<double> otherwise = std::nullopt);
  bool Bool(const char* key, bool otherwise);
  std::string String(const char* key, const std::string& otherwise);
  // A number or a list of them; empty if absent.
  std::vector<int64_t> Ids(const char* key);

  // Refuses the value of a key, if it is there, with a hint.
  void Refuse(const char* key, const std::string& why, const std::string& hint = "");
  // Refuses a value that is other than the one that the model computes with here.
  template <typename Value>
  void Require(const char* key, const Value& only) {
    const Json* value = Find(key);
    if (value != nullptr && *value != only) Refuse(key, "is not supported");
  }

  // A reader of an object among the values, whose errors say where it is: "rope_scaling.factor".
  ConfigFields Inside(const std::string& key, const Json& object) const {
    return ConfigFields(object, where_, prefix_ + key + ".");
  }

  const absl::Status& status() const { return status_; }
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  const Json& object_;
  const std::string where_, prefix_;
  absl::Status status_;
};

}  // namespace oneflow
