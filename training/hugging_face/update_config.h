// config.json of a model that was imported, as it is exported: the imported text, changed only
// where it says something else of the model.
//
//   UpdateConfigText(text, config, /*new_dtype=*/false)  // `text`, where only weights have changed
#pragma once

#include <string>
#include <string_view>

#include "training/hugging_face/model_config.h"

namespace oneflow {

// `original`: the imported text. `config`: of the model now; its ids are not looked at, since
// `original` has those of the folder, nor is a rate of dropout of 0, since graphs of imported
// models have none. `new_dtype`: the weights are exported as config.dtype, whatever they were. If
// anything that describes the model has changed, all keys that do are replaced; other keys stay. A
// model of another type, or a text that cannot be read, gives ConfigText(config).
std::string UpdateConfigText(std::string_view original, const HuggingFaceConfig& config,
                             bool new_dtype);

}  // namespace oneflow
