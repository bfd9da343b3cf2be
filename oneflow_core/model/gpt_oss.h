// The family of gpt-oss: mixtures in all blocks, biases everywhere, sinks of attention, windows on
// every other block, a clamped gated function. Numbers: its config.json.
#pragma once

#include "oneflow_core/model/family.h"

namespace oneflow {

Family GptOssFamily();

}  // namespace oneflow
