// JSON of other programs' folders, parsed strictly: an object must not have two values of one name
// (the parser itself would keep the last), and values may be nested a few levels deep only, so
// that no byte sequence exhausts the stack.
//
//   ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseStrictJson(text, "config.json"));
//   const auto& hidden = json["hidden_size"];
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace oneflow {

inline constexpr int kMostJsonDepth = 32;

// `where` is the file's name in errors. The result is an object.
absl::StatusOr<nlohmann::ordered_json> ParseStrictJson(std::string_view text,
                                                       const std::string& where);

// A name in an error message: in quotes, valid UTF-8, and not longer than a line.
std::string Quoted(std::string_view name);

}  // namespace oneflow
