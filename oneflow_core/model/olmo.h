// The family of OLMo 2 and 3: norms of what branches add, norms of queries and keys over all heads;
// windows on three blocks of four in OLMo 3. Numbers: their config.json.
#pragma once

#include "oneflow_core/model/family.h"

namespace oneflow {

Family OlmoFamily();

}  // namespace oneflow
