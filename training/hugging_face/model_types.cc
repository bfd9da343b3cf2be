#include "training/hugging_face/model_types.h"

#include <algorithm>

namespace oneflow {

const std::vector<ModelType>& ModelTypes() {
  static const auto* const types = [] {
    auto* const all = new std::vector<ModelType>;
    for (auto* const list : {Gpt2Types, LlamaTypes, GemmaTypes, OlmoTypes, GptOssTypes, GlmTypes}) {
      const std::vector<ModelType> rows = list();
      all->insert(all->end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return *types;
}

const ModelType* FindModelType(std::string_view name) {
  const auto found = std::find_if(ModelTypes().begin(), ModelTypes().end(),
                                  [&](const ModelType& type) { return type.name == name; });
  return found == ModelTypes().end() ? nullptr : &*found;
}

}  // namespace oneflow
