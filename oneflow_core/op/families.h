// The op families: each function returns the definitions of one file, as AttentionOps() those of
// attention.cc. families.inc.h lists all that a file of this folder defines; registry.cc collects
// them. Internal to op/.
#pragma once

#include <vector>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

#define LISTED(family) std::vector<OpDef> family();
#include "oneflow_core/op/families.inc.h"
#undef LISTED

}  // namespace oneflow
