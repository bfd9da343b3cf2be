// What becomes of each choice of a recipe, and each number of an optimizer, in another system.
// Internal to this folder.
//
//   FateIn(System::kTorchtitan, "prefetch")   // {kFixed, "weights are gathered one block ahead"}
//
// A row of RecipeRows or OptimizerRows without an entry fails emit_test, so a choice that is added
// must say what the emitted files make of it.
#pragma once

#include <span>
#include <string_view>

#include "tools/foreign/emit/emit.h"

namespace oneflow::foreign {

enum class Fate {
  kSaid,     // the files say it, exactly
  kNearest,  // the files say the nearest value that there is
  kFixed,    // the system does one thing, whatever is said
  kHere,     // it acts here alone, and on no other system: nothing is lost
  kNeeded,   // one value alone can be emitted: others are refused
};

struct RowFate {
  Fate fate = Fate::kSaid;
  std::string_view why;  // of a rounding
};

// Requires a name of a row; others have no fate, which CHECK tells.
RowFate FateIn(System system, std::string_view row);
bool HasFate(std::string_view row);

}  // namespace oneflow::foreign
