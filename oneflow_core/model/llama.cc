#include "oneflow_core/model/llama.h"

#include "oneflow_core/model/decoder.h"

namespace oneflow {

Family LlamaFamily() {
  Family family =
      DecoderFamily("llama", "Llama, Mistral, Mixtral, Qwen and SmolLM", "", LlamaPresets());
  family.known_by = {"wte", "norm_f.weight"};
  family.files = &LlamaFiles();
  return family;
}

}  // namespace oneflow
