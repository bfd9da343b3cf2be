#include "actor_runtime/kernel/kernel.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/host/host_ops.h"
#include "actor_runtime/kernel/host/init_variable.h"

namespace oneflow {
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
    {"batch_matmul", MakeBatchMatmul},
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
    {"feed", MakeFeed},
    {"fetch", MakeFetch},
    {"fill", MakeFill},
    {"gelu", MakeGelu},
    {"gelu_grad", MakeGeluGrad},
    {"global_norm", MakeGlobalNorm},
    {"init_variable", MakeInitVariable},
    {"layer_norm", MakeLayerNorm},
    {"layer_norm_grad_input", MakeLayerNormGradInput},
    {"layer_norm_grad_weight", MakeLayerNormGradWeight},
    {"linear", MakeLinear},
    {"linear_add", MakeLinearAdd},
    {"linear_gelu", MakeLinearGelu},
    {"linear_gelu_grad_input", MakeLinearGeluGradInput},
    {"linear_grad_bias", MakeLinearGradBias},
    {"linear_grad_input", MakeLinearGradInput},
    {"linear_grad_weight", MakeLinearGradWeight},
    {"load_slice", MakeLoadSlice},
    {"load_tokens", MakeLoadTokens},
    {"matmul", MakeMatmul},
    {"matmul_grad_b", MakeMatmulGradB},
    {"mean_nll", MakeMeanNll},
    {"next_adamw", MakeNextAdamW},
    {"pick", MakePick},
    {"positional_embedding", MakePositionalEmbedding},
    {"positional_embedding_at", MakePositionalEmbeddingAt},
    {"positional_embedding_grad", MakePositionalEmbeddingGrad},
    {"report", MakeReport},
    {"row_max", MakeRowMax},
    {"row_stats", MakeRowStats},
    {"row_sum_exp", MakeRowSumExp},
    {"save_slice", MakeSaveSlice},
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

absl::StatusOr<Kernel> MakeKernel(const KernelSetup& setup) {
  const Entry* entry =
      std::ranges::lower_bound(kTable, std::string_view(setup.kind), {}, &Entry::kind);
  if (entry == std::end(kTable) || entry->kind != setup.kind) {
    return absl::NotFoundError(setup.name + ": no kernel \"" + setup.kind + "\"");
  }
  return entry->make(setup);
}

absl::StatusOr<Kernel> MakeKernelFor(Isa isa, KernelSetup setup) {
  CHECK(Has(isa)) << Name(isa);
  setup.isa = isa;
  return MakeKernel(setup);
}

}  // namespace oneflow
