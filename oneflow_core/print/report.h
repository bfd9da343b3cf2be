// A report: what a verb says, as text for people and as JSON for programs. One function writes both
// side by side, so that a fact is found once and neither lacks it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace oneflow {

struct Report {
  std::string text;
  nlohmann::ordered_json json;
};

}  // namespace oneflow
