// A change of a training as changes of the settings of the user's own system.
//
//   ListChanges(System::kMegatron, own, better)
//   // {"--tensor-model-parallel-size", "4", "2"}, {"--sequence-parallel", "", ""} (left out)
//
// Both jobs are written as emit.h writes them, and the settings of the two are compared: so a
// change is named just as the system's files name it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/foreign/emit/emit.h"
#include "tools/foreign/read/settings.h"

namespace oneflow::foreign {

struct SettingChange {
  std::string name;
  std::string from, to;  // values; "" of a switch
  bool added = false, removed = false;
  std::string Text() const;  // "--micro-batch-size 1 -> 2", "add --sequence-parallel"
};

// Requires jobs of RoundFor for the system. `users`: the settings that the user gave, in which
// changes are told: one that the user's value has already, or follows from others ("auto"), or
// that leaves out what was not given, is none; a value that was not given is added. None: the file
// that the user gave has no word for a change, as one of --yaml-cfg, beside which flags are
// ignored.
std::optional<std::vector<SettingChange>> ListChanges(System system, const Job& own,
                                                      const Job& other,
                                                      std::span<const Setting> users);

}  // namespace oneflow::foreign
