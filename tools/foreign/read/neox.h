// GPT-NeoX: what its YAML files say of the model. Internal to neox.cc.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "tools/foreign/read/ds_config.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/read.h"
#include "tools/foreign/read/settings.h"

namespace oneflow::foreign {

// Fills in facts->model and facts->sequence, or asks for what is missing. Requires the degree of
// tensor, up to a multiple of which the vocabulary is padded.
absl::Status ReadNeoxModel(Settings* settings, const ForeignInput& input, Facts* facts);

// Blocks of each of `stages`, as PipelineModule spreads layers that count alike.
std::vector<int64_t> SpreadNeoxLayers(int64_t layers, int64_t stages);

std::span<const ListedKeys> NeoxLists();

}  // namespace oneflow::foreign
