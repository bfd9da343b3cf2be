// AttentionSpec: the sizes that give the time of attention in one kernel (OpDef::attention).
#pragma once

#include <cstdint>

namespace oneflow {

struct AttentionSpec {
  int64_t keys = 0, head_size = 0;  // of a sequence; 0: not known
  bool backward = false;
  bool operator==(const AttentionSpec&) const = default;
};

}  // namespace oneflow
