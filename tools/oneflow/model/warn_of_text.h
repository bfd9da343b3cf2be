// Warns of a file that is read as text and may be none.
#pragma once

#include <cstdio>
#include <string>

namespace oneflow {

// `doubt`: a sentence of doubt_text.h; empty: there is nothing to warn of.
inline void WarnOfText(const std::string& path, const std::string& doubt) {
  if (doubt.empty()) return;
  std::fprintf(stderr, "oneflow: warning: %s: %s\n", path.c_str(), doubt.c_str());
}

}  // namespace oneflow
