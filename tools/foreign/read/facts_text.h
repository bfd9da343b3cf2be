// Facts for people: what the configuration says, and what became of each setting.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/foreign/read/facts.h"

namespace oneflow::foreign {

// System, devices, model, batch, schedule, what is split and recomputed: a line each.
std::string FactsText(const Facts& facts);

// Names of the settings, a paragraph for each list; those without an equivalent with what that
// changes.
std::string SettingsText(const Facts& facts);

// An input error that names each broken rule with what mends it; OK if none is broken.
absl::Status CheckRules(const Facts& facts);
// An input error that asks for all that the files do not say.
absl::Status CheckQuestions(const Facts& facts);

}  // namespace oneflow::foreign
