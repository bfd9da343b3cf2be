// Files of settings: YAML by yaml-cpp, TOML by toml++, JSON by the reader of the other folders.
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/sources.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow::foreign {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::pair<std::string, int>>;

constexpr int kMostYamlDepth = 32;
constexpr size_t kMostNodes = 200'000;  // aliases multiply them

std::string Join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : absl::StrCat(prefix, ".", key);
}

// A plain scalar of YAML 1.1 as Python reads it, but that 1e-5 and 3e8 are numbers here: readers
// of these systems turn them into numbers, too.
Json ScalarJson(const std::string& text) {
  for (const char* word : {"", "~", "null", "Null", "NULL"}) {
    if (text == word) return nullptr;
  }
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
    if (text == word) return false;
  }
  std::string digits = text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  int64_t full = 0;
  if (absl::SimpleAtoi(digits, &full)) return full;
  double number = 0;
  const bool begins_well = !digits.empty() && (absl::ascii_isdigit(digits[0]) || digits[0] == '-' ||
                                               digits[0] == '+' || digits[0] == '.');
  if (begins_well && absl::SimpleAtod(digits, &number) && std::isfinite(number)) return number;
  return text;
}

absl::StatusOr<Json> YamlJson(const YAML::Node& node, const std::string& location, int depth,
                              size_t* nodes, Lines* lines) {
  if (depth > kMostYamlDepth || ++*nodes > kMostNodes) {
    return InputError(absl::StrCat("line ", node.Mark().line + 1),
                      "is nested too deep, or too large", "write it without anchors");
  }
  if (node.Mark().line >= 0) lines->emplace_back(location, node.Mark().line + 1);
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& member : node) {
      const std::string key = member.first.IsScalar() ? member.first.Scalar() : "?";
      // The merge key: members of another map that are not given here.
      if (key == "<<" && member.second.IsMap()) {
        ASSIGN_OR_RETURN(const Json merged,
                         YamlJson(member.second, location, depth + 1, nodes, lines));
        for (const auto& [name, value] : merged.items()) {
          if (!object.contains(name)) object[name] = value;
        }
        continue;
      }
      if (member.first.Mark().line >= 0) {
        lines->emplace_back(Join(location, key), member.first.Mark().line + 1);
      }
      ASSIGN_OR_RETURN(object[key],
                       YamlJson(member.second, Join(location, key), depth + 1, nodes, lines));
    }
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (size_t i = 0; i < node.size(); ++i) {
      ASSIGN_OR_RETURN(Json element, YamlJson(node[i], absl::StrCat(location, "[", i, "]"),
                                              depth + 1, nodes, lines));
      list.push_back(std::move(element));
    }
    return list;
  }
  if (!node.IsDefined() || node.IsNull()) return Json(nullptr);
  // "!" is the tag of a quoted scalar.
  if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return Json(node.Scalar());
  return ScalarJson(node.Scalar());
}

absl::StatusOr<Json> ParseYaml(const std::string& text, const std::string& name, Lines* lines) {
  // yaml-cpp recurses: brackets that nest deeper than any file of settings are refused first.
  int open = 0, deepest = 0;
  for (const char c : text) {
    open += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    deepest = std::max(deepest, open);
  }
  if (deepest > 100) return InputError(name, "is nested too deep", "write it with fewer brackets");
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    Json all = Json::object();
    size_t nodes = 0;
    for (const YAML::Node& document : documents) {
      if (!document.IsDefined() || document.IsNull()) continue;
      const absl::StatusOr<Json> read = YamlJson(document, "", 0, &nodes, lines);
      if (!read.ok()) {
        return InputError(name, "holds no settings that can be read",
                          std::string(read.status().message()));
      }
      const Json& json = *read;
      if (!json.is_object()) {
        return InputError(name, "holds no settings", "give a file of \"key: value\" lines");
      }
      all.update(json);
    }
    return all;
  } catch (const YAML::Exception& e) {
    return InputError(absl::StrCat(name, ":", e.mark.line + 1), "is no YAML: " + e.msg,
                      "correct this line");
  }
}

Json TomlJson(const toml::node& node, const std::string& location, Lines* lines) {
  lines->emplace_back(location, static_cast<int>(node.source().begin.line));
  if (const toml::table* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      object[name] = TomlJson(value, Join(location, name), lines);
    }
    return object;
  }
  if (const toml::array* array = node.as_array()) {
    Json list = Json::array();
    for (size_t i = 0; i < array->size(); ++i) {
      list.push_back(TomlJson((*array)[i], absl::StrCat(location, "[", i, "]"), lines));
    }
    return list;
  }
  if (const auto value = node.value<bool>(); value && node.is_boolean()) return *value;
  if (const auto value = node.value<int64_t>(); value && node.is_integer()) return *value;
  if (const auto value = node.value<double>(); value && node.is_floating_point()) return *value;
  if (const auto value = node.value<std::string>()) return *value;
  std::ostringstream date;
  date << toml::node_view<const toml::node>(&node);
  return date.str();
}

absl::StatusOr<Json> ParseToml(const std::string& text, const std::string& name, Lines* lines) {
  try {
    const toml::table table = toml::parse(text);
    return TomlJson(table, "", lines);
  } catch (const toml::parse_error& e) {
    return InputError(absl::StrCat(name, ":", e.source().begin.line),
                      absl::StrCat("is no TOML: ", std::string(e.description())),
                      "correct this line");
  }
}

// Comments of JSON with comments, and commas before a bracket, which DeepSpeed's users write and
// hjson reads.
std::string WithoutComments(const std::string& text) {
  std::string plain;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      plain += c;
      if (c == '\\' && i + 1 < text.size()) plain += text[++i];
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
      plain += c;
    } else if (text.compare(i, 2, "//") == 0 || c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      if (i < text.size()) plain += '\n';
    } else {
      if (c == '}' || c == ']') {
        const size_t last = plain.find_last_not_of(" \t\r\n");
        if (last != std::string::npos && plain[last] == ',') plain[last] = ' ';
      }
      plain += c;
    }
  }
  return plain;
}

// The line of each key: the first place of `"key"` behind that of its parent.
void FindJsonLines(const Json& json, const std::string& location, const std::string& text,
                   size_t from, Lines* lines) {
  if (!json.is_object()) return;
  size_t at = from;
  for (const auto& [key, value] : json.items()) {
    const size_t found = text.find("\"" + key + "\"", at);
    if (found == std::string::npos) continue;
    const int line = 1 + static_cast<int>(std::count(
                             text.begin(), text.begin() + static_cast<int64_t>(found), '\n'));
    lines->emplace_back(Join(location, key), line);
    at = found + key.size() + 2;
    FindJsonLines(value, Join(location, key), text, at, lines);
  }
}

bool IsScalarList(const Json& value) {
  return value.is_array() &&
         std::none_of(value.begin(), value.end(), [](const Json& v) { return v.is_object(); });
}

void Flatten(const Json& value, const std::string& location, const SettingsFile& file,
             std::vector<Setting>* settings) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      Flatten(member, Join(location, key), file, settings);
    }
    return;
  }
  if (value.is_array() && !IsScalarList(value)) {
    for (size_t i = 0; i < value.size(); ++i) {
      Flatten(value[i], absl::StrCat(location, "[", i, "]"), file, settings);
    }
    return;
  }
  const int line = file.FindLine(location);
  settings->push_back({.name = location,
                       .key = location,
                       .value = value,
                       .where = line > 0 ? absl::StrCat(file.name, ":", line) : file.name});
}

}  // namespace

int SettingsFile::FindLine(std::string_view location) const {
  for (const auto& [name, line] : lines) {
    if (name == location) return line;
  }
  return 0;
}

absl::StatusOr<SettingsFile> ParseSettingsFile(const std::string& text,
                                               const std::filesystem::path& path,
                                               const std::string& name) {
  SettingsFile file{.name = name, .path = path};
  const std::string ending = path.extension();
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool braces = first != std::string::npos && text[first] == '{';
  if (ending == ".toml") {
    ASSIGN_OR_RETURN(file.root, ParseToml(text, name, &file.lines));
  } else if (ending == ".yaml" || ending == ".yml" || !braces) {
    ASSIGN_OR_RETURN(file.root, ParseYaml(text, name, &file.lines));
  } else {
    ASSIGN_OR_RETURN(file.root, ParseStrictJson(WithoutComments(text), name));
    FindJsonLines(file.root, "", text, 0, &file.lines);
  }
  return file;
}

absl::StatusOr<SettingsFile> ReadSettingsFile(const std::filesystem::path& path,
                                              const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string()));
  return ParseSettingsFile(text, path, name);
}

std::vector<Setting> FlattenSettings(const SettingsFile& file, const std::string& prefix) {
  std::vector<Setting> settings;
  Flatten(file.root, "", file, &settings);
  if (prefix.empty() && !file.is_written) return settings;
  for (Setting& setting : settings) {
    setting.key = prefix + setting.key;
    setting.name = (file.is_written ? "ds_config:" : prefix) + setting.name;
  }
  return settings;
}

}  // namespace oneflow::foreign
