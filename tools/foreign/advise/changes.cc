#include "tools/foreign/advise/changes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/foreign/read/shell.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

void AddSettings(const std::vector<Setting>& settings, Values& values) {
  for (const Setting& setting : settings) values.emplace_back(setting.name, setting.ValueText());
}

bool UsesSecondFsdp(std::span<const Setting> users) {
  return std::any_of(users.begin(), users.end(), [](const Setting& setting) {
    return setting.key.ends_with("fsdp_version") && setting.ValueText() == "2";
  });
}

// All settings of the files that a system writes for a job. What does not parse is a bug of
// emit.h, which its own tests tell; here it has no settings.
Values ListSettings(System system, const Job& job, std::span<const Setting> users) {
  Values values;
  const std::vector<EmittedFile> files = WriteFor(system, job);
  // A file for each version of FSDP: the user's counts.
  constexpr char kFirst[] = "accelerate_fsdp1.yaml", kSecond[] = "accelerate.yaml";
  const bool has_first = std::any_of(files.begin(), files.end(),
                                     [&](const EmittedFile& file) { return file.name == kFirst; });
  const bool takes_first = has_first && !UsesSecondFsdp(users);
  for (const EmittedFile& file : files) {
    if (file.name == (takes_first ? kSecond : kFirst)) continue;
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

namespace {

// By its name as written, else by what it means: a flag and a location in a file may share a key.
const Setting* FindGiven(std::span<const Setting> users, const std::string& name) {
  const auto find = [&](const auto& is_it) {
    const auto found = std::find_if(users.begin(), users.end(), is_it);
    return found == users.end() ? nullptr : &*found;
  };
  const Setting* same = find([&](const Setting& setting) { return setting.name == name; });
  if (same != nullptr) return same;
  const bool is_flag = name.starts_with("--");
  const std::string key = is_flag ? KeyOfFlag(name) : name;
  return find([&](const Setting& setting) {
    return setting.name.starts_with("--") == is_flag &&
           (setting.key == key || setting.key.ends_with("." + key));
  });
}

// "1e-5" and "0.00001", true and a switch.
bool IsSameValue(const std::string& a, const std::string& b) {
  if (absl::EqualsIgnoreCase(a, b)) return true;
  const auto is_on = [](const std::string& v) {
    return v.empty() || absl::EqualsIgnoreCase(v, "true");
  };
  double x = 0, y = 0;
  return (is_on(a) && is_on(b)) || (absl::SimpleAtod(a, &x) && absl::SimpleAtod(b, &y) && x == y);
}

// Settings of one meaning, of which files are written with the first.
constexpr std::pair<const char*, const char*> kAlike[] = {
    {"num_virtual_stages_per_pipeline_rank", "num_layers_per_virtual_pipeline_stage"},
    {"recompute_granularity", "recompute_activations"},
    {"pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage"}};

// The user's other word for a setting that was not given; null if there is none.
const Setting* FindAlike(std::span<const Setting> users, const std::string& name) {
  for (const auto& [written, other] : kAlike) {
    if (KeyOfFlag(name) != written) continue;
    if (const Setting* given = FindGiven(users, std::string("--") + other)) return given;
  }
  return nullptr;
}

// True where the user's file has all there is to say, and flags beside it are ignored.
bool IsYamlOfMegatron(std::span<const Setting> users) {
  return FindGiven(users, "--yaml-cfg") != nullptr;
}

// The key of a file for a flag: "model_parallel.sequence_parallel".
const Setting* FindInFile(std::span<const Setting> users, const std::string& name) {
  for (const Setting& setting : users) {
    if (!setting.name.starts_with("--") && setting.key == KeyOfFlag(name)) return &setting;
  }
  return nullptr;
}

// Sections of a command line have dashes where all of the user's words have them.
bool WritesDashes(std::span<const Setting> users) {
  bool any = false;
  for (const Setting& setting : users) {
    if (setting.name.find('.') == std::string::npos || setting.name.starts_with("#")) continue;
    if (!setting.name.starts_with("--")) return false;
    any = true;
  }
  return any;
}

// Adds the change as the user's own settings have it; false: they have no word for it.
bool TellInUsers(std::span<const Setting> users, SettingChange change,
                 std::vector<SettingChange>& changes) {
  const bool is_yaml = IsYamlOfMegatron(users);
  const Setting* given = is_yaml ? FindInFile(users, change.name) : FindGiven(users, change.name);
  if (users.empty()) {
    changes.push_back(std::move(change));
    return true;
  }
  if (given == nullptr) {
    const Setting* alike = FindAlike(users, change.name);
    if (alike != nullptr) {
      changes.push_back({.name = alike->name, .from = alike->ValueText(), .removed = true});
    }
    if (change.removed) return true;
    if (is_yaml) return false;
    change.added = true;
    change.from.clear();
    if (change.name.find('.') != std::string::npos && WritesDashes(users)) {
      change.name.insert(0, "--");
    }
    changes.push_back(std::move(change));
    return true;
  }
  const std::string value = given->ValueText();
  if (is_yaml && change.removed) {
    change.removed = false;
    change.to = value == "true" || value == "True" ? "false" : "null";
  }
  if (is_yaml && change.to.empty()) change.to = "true";
  if (value == "auto" || (!change.removed && IsSameValue(value, change.to))) return true;
  change.added = false;
  change.name = given->name;
  change.from = value;
  changes.push_back(std::move(change));
  return true;
}

}  // namespace

std::optional<std::vector<SettingChange>> ListChanges(System system, const Job& own,
                                                      const Job& other,
                                                      std::span<const Setting> users) {
  const Values before = ListSettings(system, own, users);
  const Values after = ListSettings(system, other, users);
  std::vector<SettingChange> changes;
  bool is_possible = true;
  const auto keep = [&](SettingChange change) {
    is_possible = TellInUsers(users, std::move(change), changes) && is_possible;
  };
  for (const auto& [name, value] : before) {
    const std::string* now = FindValue(after, name);
    if (now == nullptr) {
      keep({.name = name, .from = value, .removed = true});
    } else if (*now != value) {
      keep({.name = name, .from = value, .to = *now});
    }
  }
  for (const auto& [name, value] : after) {
    if (FindValue(before, name) == nullptr) keep({.name = name, .to = value, .added = true});
  }
  // Written for both jobs, and needed by a flag that is added now.
  const bool gathers = std::any_of(changes.begin(), changes.end(), [](const SettingChange& change) {
    return change.added && change.name == "--overlap-param-gather";
  });
  if (gathers && FindGiven(users, "--overlap-grad-reduce") == nullptr) {
    changes.push_back({.name = "--overlap-grad-reduce", .added = true});
  }
  if (!is_possible) return std::nullopt;
  return changes;
}

}  // namespace oneflow::foreign
