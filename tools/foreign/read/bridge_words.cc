// Words of Hydra and interpolations of OmegaConf.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/bridge_parts.h"

namespace oneflow::foreign {
namespace {

constexpr int kMostSteps = 16;  // of interpolations that name each other

nlohmann::json OverrideValue(std::string_view text) {
  while (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
         text.back() == text.front()) {
    return std::string(text.substr(1, text.size() - 2));
  }
  if (text == "null" || text == "None" || text == "~") return nullptr;
  if (!text.starts_with('[') || !text.ends_with(']')) return std::string(text);
  nlohmann::json list = nlohmann::json::array();
  const std::string_view inner = text.substr(1, text.size() - 2);
  for (const absl::string_view word : absl::StrSplit(ToAbsl(inner), ',', absl::SkipEmpty())) {
    list.push_back(OverrideValue(ToStd(absl::StripAsciiWhitespace(word))));
  }
  return list;
}

// The place that "${.num_layers}" in "model.cpu_offloading_num_layers" names.
std::string AbsolutePlace(std::string_view named, const std::string& at) {
  if (!named.starts_with('.')) return std::string(named);
  std::vector<std::string> path = absl::StrSplit(at, '.');
  while (named.starts_with('.')) {
    named.remove_prefix(1);
    if (!path.empty()) path.pop_back();
  }
  path.emplace_back(named);
  return absl::StrJoin(path, ".");
}

class Interpolation {
 public:
  explicit Interpolation(const Settings& locations) : locations_(locations) {}

  // The value of `text` in the place `at`; none where something in it is not known.
  std::optional<nlohmann::json> Resolve(const std::string& text, const std::string& at, int steps) {
    const size_t begin = text.rfind("${");
    if (begin == std::string::npos) return nlohmann::json(text);
    const size_t end = text.find('}', begin);
    if (end == std::string::npos || steps > kMostSteps) return std::nullopt;
    const std::string inner = text.substr(begin + 2, end - begin - 2);
    const std::optional<nlohmann::json> value = Evaluate(inner, at, steps);
    if (!value) return std::nullopt;
    if (begin == 0 && end + 1 == text.size()) return value;
    const std::string word = value->is_string() ? value->get<std::string>() : value->dump();
    return Resolve(absl::StrCat(text.substr(0, begin), word, text.substr(end + 1)), at, steps + 1);
  }

 private:
  std::optional<nlohmann::json> Evaluate(const std::string& inner, const std::string& at,
                                         int steps) {
    const size_t colon = inner.find(':');
    if (colon == std::string::npos) {
      const std::string location = AbsolutePlace(inner, at);
      const Setting* setting = locations_.Find(location);
      if (setting == nullptr) return std::nullopt;
      if (!setting->value.is_string()) return setting->value;
      return Resolve(setting->value.get<std::string>(), location, steps + 1);
    }
    const std::string name = inner.substr(0, colon);
    double result = name == "multiply" ? 1 : 0;
    if (name != "multiply" && name != "sum") return std::nullopt;
    const std::vector<std::string> words = absl::StrSplit(inner.substr(colon + 1), ',');
    for (const std::string& word : words) {
      double number = 0;
      if (!absl::SimpleAtod(word, &number)) return std::nullopt;
      result = name == "multiply" ? result * number : result + number;
    }
    if (result == std::floor(result) && std::abs(result) < 0x1p53) {
      return nlohmann::json(static_cast<int64_t>(result));
    }
    return nlohmann::json(result);
  }

  const Settings& locations_;
};

}  // namespace

bool IsBridgeOverride(std::string_view word) {
  const bool is_removal = word.starts_with('~');
  while (!word.empty() && (word.front() == '+' || word.front() == '~')) word.remove_prefix(1);
  const size_t equal = word.find('=');
  if (word.empty() || equal == 0 || (equal == std::string_view::npos && !is_removal)) return false;
  const std::string_view key = word.substr(0, equal);
  return !absl::ascii_isdigit(key.front()) && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '@' || c == '/';
  });
}

Setting ParseBridgeOverride(const Word& word) {
  std::string_view text = word.text;
  const bool is_removal = text.starts_with('~');
  while (!text.empty() && (text.front() == '+' || text.front() == '~')) text.remove_prefix(1);
  const size_t equal = text.find('=');
  Setting setting{.name = std::string(text.substr(0, equal)), .where = word.where};
  setting.key = setting.name;
  if (!is_removal && equal != std::string_view::npos) {
    setting.value = OverrideValue(text.substr(equal + 1));
  }
  return setting;
}

void ResolveInterpolations(Settings* locations, std::vector<std::string>* unread) {
  std::vector<Setting> resolved;
  Interpolation interpolation(*locations);
  for (const Setting& setting : locations->all()) {
    if (!setting.value.is_string()) continue;
    const std::string text = setting.value.get<std::string>();
    if (text.find("${") == std::string::npos) continue;
    std::optional<nlohmann::json> value = interpolation.Resolve(text, setting.key, 0);
    if (!value) {
      unread->push_back(absl::StrCat(setting.where, ": ", setting.name, ": ", text));
      continue;
    }
    Setting changed = setting;
    changed.value = *std::move(value);
    resolved.push_back(std::move(changed));
  }
  for (Setting& setting : resolved) {
    locations->Set(setting.key, std::move(setting.value));
  }
}

}  // namespace oneflow::foreign
