// The types of models in config.json (model_type) that are read and written, a row each. A file for
// each kind of them (llama_config.cc, gemma_config.cc, ...) gives its rows. Internal to this
// folder.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/model/file_tensors.h"
#include "training/hugging_face/config_fields.h"
#include "training/hugging_face/model_config.h"

namespace oneflow {

struct ModelType {
  using Json = nlohmann::ordered_json;

  std::string_view name;          // "gemma2"
  std::string_view architecture;  // "Gemma2ForCausalLM"
  std::string_view family;        // of the numbers
  // Values, as JSON, of keys that files leave out, as all releases of transformers have them.
  std::string_view defaults = "{}";
  // Sets what config.json says of the numbers. `config.model` has the family's defaults, but for
  // what acts in training alone, and the vocabulary. What has no equivalent here is refused.
  void (*read)(ConfigFields& fields, HuggingFaceConfig& config) = nullptr;
  // Adds the keys of the numbers, in a spelling that releases 4 and 5 of transformers read; those
  // that all types share are there, or are added. What cannot be said is left out: a type that
  // reads back other numbers than these is not the model's.
  void (*write)(const HuggingFaceConfig& config, Json& json) = nullptr;
  const FamilyFiles& (*files)() = nullptr;
  // The keys are those of "text_config", in a model that has parts for images, too. Without them it
  // is written as this type.
  std::string_view written_as = {};
  // The quant_method of weights that are read all the same.
  std::string_view quantization = {};
};

const std::vector<ModelType>& ModelTypes();
// Null if it is not known.
const ModelType* FindModelType(std::string_view name);

std::vector<ModelType> Gpt2Types();
std::vector<ModelType> LlamaTypes();
std::vector<ModelType> GemmaTypes();
std::vector<ModelType> OlmoTypes();
std::vector<ModelType> GptOssTypes();
std::vector<ModelType> GlmTypes();

}  // namespace oneflow
