// The one way from JSON to text. Names and paths are the user's own, of any bytes, and JSON is
// UTF-8: what is not comes out as U+FFFD, where nlohmann's own dump throws.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace oneflow {

// On one line; with `indent`, a line for each value.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace oneflow
