#include "actor_runtime/cuda/kernel/make_kernel.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "actor_runtime/cuda/kernel/factories.h"
#include "actor_runtime/cuda/kernel/products.h"

namespace oneflow::cuda {
namespace {

using Factory = absl::StatusOr<Kernel> (*)(const KernelSetup&, const Libraries&);

// A factory that needs no libraries, as one that is given them.
template <absl::StatusOr<Kernel> (*kMake)(const KernelSetup&)>
absl::StatusOr<Kernel> Alone(const KernelSetup& setup, const Libraries&) {
  return kMake(setup);
}

struct Entry {
  std::string_view kind;
  Factory make;
};

// Sorted by kind.
constexpr Entry kTable[] = {
    {"adamw", Alone<MakeAdamW>},
    {"add", Alone<MakeAdd>},
    {"add_bias", Alone<MakeAddBias>},
    {"add_n", Alone<MakeAddN>},
    {"batch_matmul", MakeBatchMatmul},
    {"cached_attention", Alone<MakeCachedAttention>},
    {"cast", Alone<MakeCast>},
    {"causal_attention", Alone<MakeCausalAttention>},
    {"causal_attention_grad", Alone<MakeCausalAttentionGrad>},
    {"causal_softmax", Alone<MakeCausalSoftmax>},
    {"causal_softmax_grad", Alone<MakeCausalSoftmaxGrad>},
    {"cross_entropy_grad", Alone<MakeCrossEntropyGrad>},
    {"dropout", Alone<MakeDropout>},
    {"embedding", Alone<MakeEmbedding>},
    {"embedding_grad", Alone<MakeEmbeddingGrad>},
    {"fill", Alone<MakeFill>},
    {"gelu", Alone<MakeGelu>},
    {"gelu_grad", Alone<MakeGeluGrad>},
    {"global_norm", Alone<MakeGlobalNorm>},
    {"layer_norm", Alone<MakeLayerNorm>},
    {"layer_norm_grad_input", Alone<MakeLayerNormGradInput>},
    {"layer_norm_grad_weight", Alone<MakeLayerNormGradWeight>},
    {"linear", MakeLinear},
    {"linear_add", MakeLinearAdd},
    {"linear_gelu", MakeLinearGelu},
    {"linear_gelu_grad_input", MakeLinearGeluGradInput},
    {"linear_grad_bias", Alone<MakeLinearGradBias>},
    {"linear_grad_input", MakeLinearGradInput},
    {"linear_grad_weight", MakeLinearGradWeight},
    {"matmul", MakeMatmul},
    {"matmul_grad_b", MakeMatmulGradB},
    {"mean_nll", Alone<MakeMeanNll>},
    {"next_adamw", Alone<MakeNextAdamW>},
    {"pick", Alone<MakePick>},
    {"positional_embedding", Alone<MakePositionalEmbedding>},
    {"positional_embedding_at", Alone<MakePositionalEmbeddingAt>},
    {"positional_embedding_grad", Alone<MakePositionalEmbeddingGrad>},
    {"row_max", Alone<MakeRowMax>},
    {"row_stats", Alone<MakeRowStats>},
    {"row_sum_exp", Alone<MakeRowSumExp>},
    {"slice", Alone<MakeCopySlices>},
    {"split_heads", Alone<MakeSplitHeads>},
    {"split_heads_grad", Alone<MakeSplitHeadsGrad>},
    {"stored_dropout", Alone<MakeStoredDropout>},
    {"stored_dropout_grad", Alone<MakeStoredDropoutGrad>},
    {"sum_squares", Alone<MakeSumSquares>},
    {"sum_uses", Alone<MakeAddN>},
    {"swap_dims", Alone<MakeSwapDims>},
    {"zero_fill", Alone<MakeCopySlices>},
};
static_assert(std::ranges::is_sorted(kTable, {}, &Entry::kind));

}  // namespace

absl::StatusOr<Kernel> MakeCudaKernel(const KernelSetup& setup, const Libraries& libraries) {
  const Entry* entry =
      std::ranges::lower_bound(kTable, std::string_view(setup.kind), {}, &Entry::kind);
  if (entry == std::end(kTable) || entry->kind != setup.kind) {
    return absl::NotFoundError(setup.name + ": no CUDA kernel \"" + setup.kind + "\"");
  }
  return entry->make(setup, libraries);
}

std::vector<std::string_view> CudaKernelKinds() {
  std::vector<std::string_view> kinds;
  for (const Entry& entry : kTable) kinds.push_back(entry.kind);
  return kinds;
}

}  // namespace oneflow::cuda
