// The architecture that a config.json of any public kind of decoder describes. Types that are known
// (architecture_types.cc) are read with their own defaults; others by the usual names of keys, and
// that is a difference, which names the keys that were not understood.
//
//   ASSIGN_OR_RETURN(const ReadArchitectureResult read, ReadArchitecture(text, "config.json"));
//
// It reads for planners: what is beside the decoder (images, quantization, code of a model's own)
// is a difference, not an error. model_config.h reads for `import`, right or not at all.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "training/hugging_face/architecture.h"

namespace oneflow {

struct ReadArchitectureResult {
  std::string type;  // model_type, that of the text part if the model has others
  Architecture architecture;
};

// An input error if it is no configuration of a decoder: other JSON, an encoder, a model without
// attention, or a size that is missing.
absl::StatusOr<ReadArchitectureResult> ReadArchitecture(std::string_view text,
                                                        const std::string& where);

}  // namespace oneflow
