// Warns of a file that is read as text and may be none.
#pragma once

#include <string>

#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {

// `doubt`: a sentence of doubt_text.h; empty: there is nothing to warn of.
inline void WarnOfText(const std::string& path, const std::string& doubt) {
  if (!doubt.empty()) PrintNotice("warning: " + path + ": " + doubt);
}

}  // namespace oneflow
