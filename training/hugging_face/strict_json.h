// JSON of other programs' folders, parsed strictly: an object must not have two values of one name
// (the parser itself would keep the last), and values may be nested a few levels deep only, so
// that no byte sequence exhausts the stack. The words NaN and Infinity, which Python writes, are
// strings here.
//
//   ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseStrictJson(text, "config.json"));
//   const auto& hidden = json["hidden_size"];
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace oneflow {

inline constexpr int kMostJsonDepth = 32;

// The members of the object in a text that ParseStrictJson takes, as they stand there.
struct JsonMember {
  std::string_view key;  // without quotes
  std::string_view value;
};
std::vector<JsonMember> ListMembers(std::string_view text);

// `where` is the file's name in errors. The result is an object.
absl::StatusOr<nlohmann::ordered_json> ParseStrictJson(std::string_view text,
                                                       const std::string& where);

// A name in an error message: in quotes, valid UTF-8, and not longer than a line.
std::string Quoted(std::string_view name);

}  // namespace oneflow
