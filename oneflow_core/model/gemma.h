// The family of Gemma 2 and 3, text parts: norms before and after each branch, with 1 + w, gelu by
// tanh, embeddings times sqrt(hidden); windows on some blocks. Numbers: their config.json.
#pragma once

#include "oneflow_core/model/family.h"

namespace oneflow {

Family GemmaFamily();

}  // namespace oneflow
