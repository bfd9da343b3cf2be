// The family of Llama, Mistral, Mixtral, Qwen and SmolLM (decoder.h says what it is made of).
#pragma once

#include <vector>

#include "oneflow_core/model/family.h"

namespace oneflow {

// The row of the table of families.
Family LlamaFamily();

// Models with a name: "llama-tiny", ..., "llama2-7b", "qwen3-0.6b", ...; `sequence` is the longest
// for which the model was published.
std::vector<Preset> LlamaPresets();

}  // namespace oneflow
