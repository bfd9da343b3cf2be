// From the text of a flag's value to its gflag, or to what is wrong with the text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/oneflow/cli/flag_table.h"

namespace oneflow {

// True if the flag needs no value: `--resume`, `--fuse`.
bool MayStandAlone(const FlagRow& row);

// Sets the gflag of `row`, or checks the value of a field, which RecipeFromFlags sets. An input
// error names the flag, the value, what is expected and an example: a text that is no number, a
// number outside the type or below the least that means something, a word that is none of the
// row's.
absl::Status SetFlag(const FlagRow& row, const std::string& value);

}  // namespace oneflow
