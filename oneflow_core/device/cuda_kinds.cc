#include "oneflow_core/device/cuda_kinds.h"

#include <algorithm>

namespace oneflow {
namespace {

constexpr std::string_view kKinds[] = {
    "adamw",
    "add",
    "add_bias",
    "add_n",
    "batch_matmul",
    "cached_attention",
    "cast",
    "causal_attention",
    "causal_attention_grad",
    "causal_softmax",
    "causal_softmax_grad",
    "cross_entropy_grad",
    "dropout",
    "embedding",
    "embedding_grad",
    "fill",
    "gelu",
    "gelu_grad",
    "global_norm",
    "layer_norm",
    "layer_norm_grad_input",
    "layer_norm_grad_weight",
    "linear",
    "linear_add",
    "linear_gelu",
    "linear_gelu_grad_input",
    "linear_grad_bias",
    "linear_grad_input",
    "linear_grad_weight",
    "matmul",
    "matmul_grad_b",
    "mean_nll",
    "next_adamw",
    "pick",
    "positional_embedding",
    "positional_embedding_at",
    "positional_embedding_grad",
    "row_max",
    "row_stats",
    "row_sum_exp",
    "slice",
    "split_heads",
    "split_heads_grad",
    "stored_dropout",
    "stored_dropout_grad",
    "sum_squares",
    "sum_uses",
    "swap_dims",
    "zero_fill",
};
static_assert(std::ranges::is_sorted(kKinds));

}  // namespace

std::span<const std::string_view> CudaKinds() { return kKinds; }

bool HasCudaKernel(std::string_view kind) { return std::ranges::binary_search(kKinds, kind); }

}  // namespace oneflow
