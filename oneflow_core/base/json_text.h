// The one way from JSON to text. Names and paths are the user's own and may have any bytes, but
// JSON is UTF-8. Other bytes become U+FFFD; nlohmann's own dump throws on them.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace oneflow {

// Prints on one line; with `indent`, a line for each value.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace oneflow
