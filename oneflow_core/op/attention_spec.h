// AttentionSpec: the sizes by which attention in one kernel is priced (OpDef::attention).
#pragma once

#include <cstdint>

namespace oneflow {

struct AttentionSpec {
  int64_t keys = 0, head_size = 0;  // of a sequence; 0: not known
  bool backward = false;
  bool operator==(const AttentionSpec&) const = default;
};

}  // namespace oneflow
