// A word of the command line that belongs to no flag: what was probably meant.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// An input error that says what to write instead: "-batch=4" lacks a dash, a file or a folder its
// flag (FileKind tells which), a word after a switch its "=". `switch_before`: the flag before the
// word that took no value, or "".
absl::Status StrayWord(const Verb& verb, const std::string& word, std::string_view switch_before);

}  // namespace oneflow
