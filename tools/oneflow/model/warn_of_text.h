// Warns of a file that is read as text and may be none.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "oneflow_core/base/status.h"
#include "training/data/data_file.h"
#include "training/data/recognize_data.h"

namespace oneflow {

inline absl::Status WarnOfText(const DataFile& file) {
  ASSIGN_OR_RETURN(const std::string doubt, DoubtText(file));
  if (doubt.empty()) return absl::OkStatus();
  std::fprintf(stderr, "oneflow: warning: %s: %s\n", file.path().c_str(), doubt.c_str());
  return absl::OkStatus();
}

// `text`: all of the file, for a tokenizer other than of bytes.
inline void WarnOfEncoding(const std::string& path, std::string_view text) {
  const std::string doubt = DoubtUtf8(path, text);
  if (doubt.empty()) return;
  std::fprintf(stderr, "oneflow: warning: %s: %s\n", path.c_str(), doubt.c_str());
}

}  // namespace oneflow
