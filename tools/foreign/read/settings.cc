#include "tools/foreign/read/settings.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

std::vector<std::string> Words(std::string_view text) {
  return absl::StrSplit(ToAbsl(text), ' ', absl::SkipEmpty());
}

bool IsListed(std::string_view names, std::string_view key) {
  for (const std::string& name : Words(names)) {
    if (name == key) return true;
    if (name.ends_with('*') && key.starts_with(name.substr(0, name.size() - 1))) return true;
  }
  return false;
}

// True of a value that asks for nothing.
bool IsOff(const Setting& setting, std::string_view off) {
  if (setting.is_switch) return false;
  const nlohmann::json& value = setting.value;
  if (value.is_null() || (value.is_structured() && value.empty())) return true;
  const std::string text = absl::AsciiStrToLower(setting.ValueText());
  for (const char* word : {"", "null", "none", "false", "0", "0.0", "no", "off", "disabled"}) {
    if (text == word) return true;
  }
  for (const std::string& word : Words(off)) {
    if (text == absl::AsciiStrToLower(word)) return true;
    double a = 0, b = 0;
    if (absl::SimpleAtod(text, &a) && absl::SimpleAtod(word, &b) && a == b) return true;
  }
  return false;
}

}  // namespace

std::string_view ListText(List list) {
  switch (list) {
    case List::kTaken: return "taken";
    case List::kDefault: return "is our default";
    case List::kNoEffect: return "has no effect on a plan";
    case List::kNoEquivalent: return "has no equivalent";
    case List::kLauncher: return "of the launcher";
    case List::kUnknown: break;
  }
  return "is unknown";
}

std::string KeyOfFlag(std::string_view flag) {
  while (flag.starts_with('-')) flag.remove_prefix(1);
  std::string key(flag);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string Setting::ValueText() const {
  if (is_switch) return "";
  if (value.is_string()) return value.get<std::string>();
  return JsonText(value);
}

void Settings::Add(Setting setting) {
  const auto same = std::find_if(all_.begin(), all_.end(),
                                 [&](const Setting& s) { return s.key == setting.key; });
  if (same == all_.end()) {
    all_.push_back(std::move(setting));
    return;
  }
  setting.overrides = absl::StrCat(same->ValueText(), " (", same->where, ")");
  *same = std::move(setting);
}

void Settings::Append(const Settings& other) {
  for (const Setting& setting : other.all_) Add(setting);
}

void Settings::Set(std::string_view key, nlohmann::json value) {
  if (Setting* setting = FindMutable(key); setting != nullptr) setting->value = std::move(value);
}

Setting* Settings::FindMutable(std::string_view key) {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const Setting& s) { return s.key == key; });
  return found == all_.end() ? nullptr : &*found;
}

const Setting* Settings::Find(std::string_view key) const {
  return const_cast<Settings*>(this)->FindMutable(key);
}

Setting* Settings::Take(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  Setting* setting = FindMutable(key);
  if (setting == nullptr) return nullptr;
  if (!setting->is_sorted) {
    setting->list = List::kTaken;
    setting->is_sorted = true;
  }
  return setting->value.is_null() && !setting->is_switch ? nullptr : setting;
}

std::string Settings::Where(std::string_view key) const {
  const Setting* setting = Find(key);
  if (setting == nullptr) return std::string(key);
  const std::string value = setting->ValueText();
  return absl::StrCat(setting->where, setting->where.empty() ? "" : ": ", setting->name,
                      value.empty() ? "" : "=", value);
}

void Settings::Refuse(std::string_view key, std::string_view what, std::string_view hint) {
  Keep(InputError(Where(key), what, hint));
}

const nlohmann::json* Settings::Value(std::string_view key) {
  const Setting* setting = Take(key);
  return setting == nullptr ? nullptr : &setting->value;
}

std::optional<int64_t> Settings::Int(std::string_view key) {
  const std::optional<double> number = Number(key);
  if (!number) return std::nullopt;
  if (*number != std::floor(*number) || std::abs(*number) > 0x1p53) {
    Refuse(key, "is no whole number");
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<double> Settings::Number(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  double number = 0;
  std::string text = setting->ValueText();
  // Python and TOML write 30_000.
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  if (setting->is_switch || !absl::SimpleAtod(text, &number) || !std::isfinite(number)) {
    const bool is_open = text.find_first_of("$`") != std::string::npos;
    Refuse(key, "is no number",
           is_open ? "give the script what it lacks: `oneflow fit -- NAME=8 bash run.sh WORDS`, or "
                     "write the number"
                   : "");
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> Settings::Text(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  if (setting->is_switch || setting->value.is_structured()) {
    Refuse(key, "is no text");
    return std::nullopt;
  }
  return setting->ValueText();
}

std::optional<bool> Settings::Bool(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  // What a script computes behind a switch, "--bf16 $MORE", are words of their own.
  if (setting->is_switch || setting->ValueText().starts_with('$')) return true;
  const std::string text = absl::AsciiStrToLower(setting->ValueText());
  for (const char* word : {"true", "yes", "1", "on"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "no", "0", "off"}) {
    if (text == word) return false;
  }
  Refuse(key, "is neither true nor false");
  return std::nullopt;
}

void Settings::Put(std::string_view key, List list, std::string note) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  Setting* setting = FindMutable(key);
  if (setting == nullptr) return;
  setting->list = list;
  setting->note = std::move(note);
  setting->is_sorted = true;
}

void Settings::Sort(std::span<const ListedKeys> lists) {
  for (Setting& setting : all_) {
    if (setting.is_sorted) continue;
    setting.is_sorted = true;
    for (const ListedKeys& listed : lists) {
      if (!IsListed(listed.names, setting.key)) continue;
      setting.list = listed.list;
      if (listed.list == List::kNoEquivalent && IsOff(setting, listed.off)) {
        setting.list = List::kDefault;
      }
      if (setting.list == List::kNoEquivalent) setting.note = std::string(listed.note);
      break;
    }
    if (setting.list != List::kUnknown) continue;
    std::vector<std::string> known = asked_;
    for (const ListedKeys& listed : lists) {
      const std::vector<std::string> names = Words(listed.names);
      known.insert(known.end(), names.begin(), names.end());
    }
    std::string nearest = Nearest(setting.key, known);
    if (nearest.empty()) continue;
    if (setting.name.starts_with("--")) {
      if (setting.name.find('_') == std::string::npos) {
        std::replace(nearest.begin(), nearest.end(), '_', '-');
      }
      nearest.insert(0, "--");
    }
    setting.note = absl::StrCat("did you mean ", nearest, "?");
  }
}

}  // namespace oneflow::foreign
