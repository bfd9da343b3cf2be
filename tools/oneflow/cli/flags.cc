#include "tools/oneflow/cli/flags.h"

#define FLAG(type, name, value, verbs, group, rare, kind, sentence) \
  DEFINE_##type(name, value, sentence);
#define FLAG_OF(verb, name, value, kind, sentence)
#define TAKES(verbs, name)
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
#undef TAKES
