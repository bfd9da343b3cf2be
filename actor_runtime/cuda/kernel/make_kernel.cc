#include "actor_runtime/cuda/kernel/make_kernel.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "actor_runtime/cuda/kernel/factories.h"

namespace oneflow::cuda {
namespace {

struct Entry {
  std::string_view kind;
  absl::StatusOr<Kernel> (*make)(const KernelSetup&);
};

// Sorted by kind.
constexpr Entry kTable[] = {
    {"adamw", MakeAdamW},
    {"add", MakeAdd},
    {"add_bias", MakeAddBias},
    {"add_n", MakeAddN},
    {"cached_attention", MakeCachedAttention},
    {"cast", MakeCast},
    {"causal_attention", MakeCausalAttention},
    {"causal_attention_grad", MakeCausalAttentionGrad},
    {"causal_softmax", MakeCausalSoftmax},
    {"causal_softmax_grad", MakeCausalSoftmaxGrad},
    {"cross_entropy_grad", MakeCrossEntropyGrad},
    {"dropout", MakeDropout},
    {"embedding", MakeEmbedding},
    {"embedding_grad", MakeEmbeddingGrad},
    {"fill", MakeFill},
    {"gelu", MakeGelu},
    {"gelu_grad", MakeGeluGrad},
    {"global_norm", MakeGlobalNorm},
    {"layer_norm", MakeLayerNorm},
    {"layer_norm_grad_input", MakeLayerNormGradInput},
    {"layer_norm_grad_weight", MakeLayerNormGradWeight},
    {"mean_nll", MakeMeanNll},
    {"next_adamw", MakeNextAdamW},
    {"pick", MakePick},
    {"positional_embedding", MakePositionalEmbedding},
    {"positional_embedding_at", MakePositionalEmbeddingAt},
    {"positional_embedding_grad", MakePositionalEmbeddingGrad},
    {"row_max", MakeRowMax},
    {"row_sum_exp", MakeRowSumExp},
    {"slice", MakeCopySlices},
    {"split_heads", MakeSplitHeads},
    {"split_heads_grad", MakeSplitHeadsGrad},
    {"stored_dropout", MakeStoredDropout},
    {"stored_dropout_grad", MakeStoredDropoutGrad},
    {"sum_squares", MakeSumSquares},
    {"sum_uses", MakeAddN},
    {"swap_dims", MakeSwapDims},
    {"zero_fill", MakeCopySlices},
};
static_assert(std::ranges::is_sorted(kTable, {}, &Entry::kind));

}  // namespace

absl::StatusOr<Kernel> MakeCudaKernel(const KernelSetup& setup) {
  const Entry* entry =
      std::ranges::lower_bound(kTable, std::string_view(setup.kind), {}, &Entry::kind);
  if (entry == std::end(kTable) || entry->kind != setup.kind) {
    return absl::NotFoundError(setup.name + ": no CUDA kernel \"" + setup.kind + "\"");
  }
  return entry->make(setup);
}

std::vector<std::string_view> CudaKernelKinds() {
  std::vector<std::string_view> kinds;
  for (const Entry& entry : kTable) kinds.push_back(entry.kind);
  return kinds;
}

}  // namespace oneflow::cuda
