#include "training/hugging_face/config_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kMostShownOfField = 100;

}  // namespace

const ConfigFields::Json* ConfigFields::Find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigFields::Refuse(const char* key, const std::string& why, const std::string& hint) {
  if (!status_.ok()) return;
  const Json* value = Find(key);
  std::string what = absl::StrCat("\"", prefix_, key, "\"");
  if (value != nullptr) {
    std::string text = JsonText(*value);
    if (text.size() > kMostShownOfField) text = text.substr(0, kMostShownOfField) + "...";
    absl::StrAppend(&what, ": ", text);
  }
  status_ = InputError(where_, absl::StrCat(what, " ", why), hint);
}

int64_t ConfigFields::Size(const char* key, std::optional<int64_t> otherwise, int64_t most) {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!otherwise) Refuse(key, "is missing");
    return otherwise.value_or(1);
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > static_cast<uint64_t>(most)) {
    Refuse(key, absl::StrCat("is no whole number from 1 to ", most));
    return 1;
  }
  return value->get<int64_t>();
}

double ConfigFields::Number(const char* key, std::optional<double> otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!otherwise) Refuse(key, "is missing");
    return otherwise.value_or(1);
  }
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < 0) {
    Refuse(key, "is no number that is 0 or more");
    return 1;
  }
  return value->get<double>();
}

bool ConfigFields::Bool(const char* key, bool otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    Refuse(key, "is neither true nor false");
    return otherwise;
  }
  return value->get<bool>();
}

std::string ConfigFields::String(const char* key, const std::string& otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    Refuse(key, "is no string");
    return otherwise;
  }
  return value->get<std::string>();
}

std::vector<int64_t> ConfigFields::Ids(const char* key) {
  const Json* value = Find(key);
  std::vector<int64_t> ids;
  if (value == nullptr) return ids;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > (uint64_t{1} << 31) - 1) {
      Refuse(key, "is neither an id of a token nor a list of ids");
      return {};
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace oneflow
