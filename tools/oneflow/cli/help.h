// The text of `oneflow VERB --help`.
//
//   std::fputs(HelpText(verb, /*all=*/false, HelpColumns()).c_str(), stdout);
//
// Guarantees: only flags that the verb takes, in the groups of the flag table, with the defaults of
// this verb; no line is longer than `columns`, but for a word that is. Examples stand at the end
// and work as written: a line that is too long goes on after a backslash.
#pragma once

#include <string>
#include <string_view>

#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// `all`: the rarer flags, too.
std::string HelpText(const Verb& verb, bool all, int columns);

// Columns of the terminal, 60 to 100; those of $COLUMNS where standard output is none, else 100.
int HelpColumns();

// `text` in lines of at most `columns`, each but the first after `indent` blanks. `column`: where
// the first line begins.
std::string Wrapped(std::string_view text, int columns, int indent, int column);

}  // namespace oneflow
