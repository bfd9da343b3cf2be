// The table of verbs, in the order of `oneflow --help`.
#pragma once

#include <vector>

#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// A verb's words, flags and summary are all that is known of it outside of its file.
std::vector<Verb> Verbs();

// Prints what a shell needs to complete the words of a command line (completion.cc).
Verb CompletionVerb();

}  // namespace oneflow
