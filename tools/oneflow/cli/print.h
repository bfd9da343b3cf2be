// The end of a verb: its report, as --format asks for it.
#pragma once

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {

inline absl::Status Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

// Prints `json` with --format=json, with `indent` as JsonText has it; else `text`.
inline absl::Status Print(const std::string& text, const nlohmann::ordered_json& json,
                          int indent = -1) {
  return Print(FLAGS_format == "json" ? JsonText(json, indent) + "\n" : text);
}

}  // namespace oneflow
