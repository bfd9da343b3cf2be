// The tables of ops: each function returns the rows of one file, as AttentionOps() those of
// attention.cc. op_tables.inc.h lists all that a file of this folder defines; registry.cc collects
// them. Internal to op/.
#pragma once

#include <vector>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

#define LISTED(table) std::vector<OpDef> table();
#include "oneflow_core/op/op_tables.inc.h"
#undef LISTED

}  // namespace oneflow
