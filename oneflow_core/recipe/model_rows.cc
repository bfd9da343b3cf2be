// The rows of Model: its family and its numbers, or a file.
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

const Row kModelRows[] = {
    {.name = "layers",
     .value = "N",
     .sentence = "Blocks. Default: the preset's.",
     .least = 1,
     .foreign = "num_layers n_layers n_layer"},
    {.name = "heads",
     .value = "N",
     .sentence = "Attention heads. Default: the preset's.",
     .least = 1,
     .foreign = "num_attention_heads n_heads n_head"},
};

}  // namespace

std::span<const Row> ModelRows() { return kModelRows; }

}  // namespace oneflow
