#include "tools/foreign/advise/changes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/foreign/read/shell.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

void AddSettings(const std::vector<Setting>& settings, Values& values) {
  for (const Setting& setting : settings) values.emplace_back(setting.name, setting.ValueText());
}

// All settings of the files that a system writes for a job. What does not parse is a bug of
// emit.h, which its own tests tell; here it has no settings.
Values ListSettings(System system, const Job& job) {
  Values values;
  for (const EmittedFile& file : WriteFor(system, job)) {
    if (file.name.ends_with(".sh")) {
      const Script script = ReadScript(file.text, file.name, {});
      for (const ScriptCommand& command : script.commands) {
        AddSettings(ParseFlags(command.words, nullptr), values);
      }
      continue;
    }
    const absl::StatusOr<SettingsFile> settings =
        ParseSettingsFile(file.text, file.name, file.name);
    if (settings.ok()) AddSettings(FlattenSettings(*settings), values);
  }
  return values;
}

const std::string* FindValue(const Values& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& value) { return value.first == name; });
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace

std::string SettingChange::Text() const {
  const char* between = name.starts_with("--") ? " " : "=";
  const auto with = [&](const std::string& value) {
    return value.empty() ? name : absl::StrCat(name, between, value);
  };
  if (added) return "add " + with(to);
  if (removed) return "leave out " + with(from);
  return absl::StrCat(name, between, from, " -> ", to);
}

std::vector<SettingChange> ListChanges(System system, const Job& own, const Job& other) {
  const Values before = ListSettings(system, own), after = ListSettings(system, other);
  std::vector<SettingChange> changes;
  for (const auto& [name, value] : before) {
    const std::string* now = FindValue(after, name);
    if (now == nullptr) {
      changes.push_back({.name = name, .from = value, .removed = true});
    } else if (*now != value) {
      changes.push_back({.name = name, .from = value, .to = *now});
    }
  }
  for (const auto& [name, value] : after) {
    if (FindValue(before, name) == nullptr) {
      changes.push_back({.name = name, .to = value, .added = true});
    }
  }
  return changes;
}

}  // namespace oneflow::foreign
