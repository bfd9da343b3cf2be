// Settings of another system as its files and commands give them, and which of them a reader used.
//
//   Settings settings("megatron-lm");
//   settings.Add({.name = "--num-layers", .key = "num_layers", .value = "32"});
//   const std::optional<int64_t> layers = settings.Int("num_layers");  // it is taken by this
//   settings.Sort(MegatronLists());                                    // the others get their list
//
// A setting is taken because a reader asked for it: no table repeats what the readers read. A
// later setting of a key replaces an earlier one. The first bad value is kept in status().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace oneflow::foreign {

// What becomes of a setting.
enum class List {
  kTaken,
  kDefault,       // what it asks for is how it is here
  kNoEffect,      // on a plan: data, records, checkpoints, seeds
  kNoEquivalent,  // `note`: what that changes in bytes, time or numbers
  kLauncher,      // it starts processes and says nothing about the run
  kUnknown,       // the system has no such setting
};
// "taken", "is our default", "has no effect on a plan", ...
std::string_view ListText(List list);

struct Setting {
  std::string name;        // as written: "--num-layers", "model.num_layers", "#SBATCH --nodes"
  std::string key;         // by which readers ask: "num_layers"
  nlohmann::json value;    // a string from a command line; null: given as nothing
  std::string where;       // "run.sh:7"
  bool is_switch = false;  // of a command line, without a value
  List list = List::kUnknown;
  std::string note;
  std::string overrides;   // the value that it replaces, and where that stands
  bool is_sorted = false;  // `list` is set

  std::string ValueText() const;  // "" of a switch
};

// Settings of a system that no reader asks for. `names`: keys, blanks between; "moe_*" is a prefix,
// "*.bias_*" and the like are not.
struct ListedKeys {
  List list;  // of kNoEquivalent: only if the value is not `off`
  std::string_view names;
  std::string_view note = "";  // of kNoEquivalent
  // Values that ask for nothing, blanks between: then the setting is kDefault. Null, false, 0, "",
  // "none" and [] always are, but of a switch.
  std::string_view off = "";
};

class Settings {
 public:
  // `system` is for errors: "megatron-lm".
  explicit Settings(std::string system) : system_(std::move(system)) {}

  void Add(Setting setting);
  // All those of `other` with names and keys as they are there.
  void Append(const Settings& other);
  // Gives a setting that is there another value: one that refers to others is resolved so.
  void Set(std::string_view key, nlohmann::json value);

  // These take the setting. A value of null is absent; a bad one is an error that names it.
  std::optional<int64_t> Int(std::string_view key);
  std::optional<double> Number(std::string_view key);
  std::optional<std::string> Text(std::string_view key);
  // A switch is true; also true/false, yes/no, 1/0 and on/off in any letters.
  std::optional<bool> Bool(std::string_view key);
  const nlohmann::json* Value(std::string_view key);  // null pointer: absent or null

  // The setting itself, without taking it.
  const Setting* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Puts a setting, if it is there, in another list than its table's or kTaken.
  void Put(std::string_view key, List list, std::string note = "");
  // "run.sh:7: --num-layers=32", for errors.
  std::string Where(std::string_view key) const;
  // Keeps an input error about a setting: "run.sh:7: --num-layers=x: what; hint".
  void Refuse(std::string_view key, std::string_view what, std::string_view hint = "");

  // Gives each setting that is in no list yet the one that a table says, else kUnknown with the
  // name that is nearest among all keys known.
  void Sort(std::span<const ListedKeys> lists);

  const std::vector<Setting>& all() const { return all_; }
  const absl::Status& status() const { return status_; }
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  Setting* FindMutable(std::string_view key);
  Setting* Take(std::string_view key);

  std::string system_;
  std::vector<Setting> all_;        // in the order given, each key once
  std::vector<std::string> asked_;  // keys that readers asked for
  absl::Status status_;
};

// "num_layers" of "--num-layers".
std::string KeyOfFlag(std::string_view flag);

}  // namespace oneflow::foreign
