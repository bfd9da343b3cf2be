// The one way from JSON to text, and lists in it. Names and paths are the user's own and may have
// any bytes, but JSON is UTF-8. Other bytes become U+FFFD; nlohmann's own dump throws on them.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace oneflow {

// Prints on one line; with `indent`, a line for each value.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// The array of what `make` gives for each element.
template <typename Range, typename Make>
nlohmann::ordered_json JsonList(const Range& range, Make make) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& element : range) list.push_back(make(element));
  return list;
}

}  // namespace oneflow
