// config.json of a model that was imported, as it is exported: the imported text, changed only
// where it says something else of the model.
//
//   UpdateConfigText(text, config, /*other_dtype=*/false)  // is `text`, if only weights were
//   trained
#pragma once

#include <string>
#include <string_view>

#include "actor_runtime/hugging_face/model_config.h"

namespace oneflow {

// `original`: the imported text. `config`: of the model now; its ids are not looked at, since
// `original` has those of the folder, nor is a rate of dropout of 0, since graphs of imported
// models have none. `other_dtype`: the weights are exported as config.dtype, and were of another
// type. If anything that describes the model has changed, all keys that do are replaced; other keys
// stay. A model of another type, or a text that cannot be read, gives ConfigText(config).
std::string UpdateConfigText(std::string_view original, HuggingFaceConfig config, bool other_dtype);

}  // namespace oneflow
