// The flags that are no fields of a message, one gflag for each row of flag_table.inc. The row says
// which verbs take it.
#pragma once

#include "gflags/gflags.h"

#define FLAG(type, name, value, verbs, group, rare, kind, sentence) DECLARE_##type(name);
#define FLAG_OF(verb, name, value, kind, sentence)
#define TAKES(verbs, name)
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
#undef TAKES
