// The end of a verb: its report, as --format asks for it.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {

// To standard output, or to the verb's caller (caller.h).
absl::Status Print(const std::string& text);

// A line about once a second if standard error is a terminal, else at most every five; to a caller
// each.
class ProgressLine {
 public:
  void Print(const std::string& line);

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Prints `json` with --format=json, with `indent` as JsonText has it; else `text`.
inline absl::Status Print(const std::string& text, const nlohmann::ordered_json& json,
                          int indent = -1) {
  return Print(FLAGS_format == "json" ? JsonText(json, indent) + "\n" : text);
}

}  // namespace oneflow
