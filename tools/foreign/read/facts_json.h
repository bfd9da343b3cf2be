// Facts as JSON, in the terms of other systems' users: degrees by name, batches in sequences.
//
// A fact that is not known, or that a misspelt setting may have been meant for, is null.
#pragma once

#include "nlohmann/json.hpp"
#include "tools/foreign/read/facts.h"

namespace oneflow::foreign {

nlohmann::ordered_json FactsJson(const Facts& facts);

}  // namespace oneflow::foreign
