// The factories of our CUDA kernels, one for each kind; make_kernel.cc's table names them all. Each
// returns a Kernel for the ports of `setup`, whose call launches on the stream of a GPU and
// returns. Its meaning is that of the CPU's kernel of that kind (docs/ops.md). UNIMPLEMENTED for a
// dtype that it does not support and INTERNAL if the plan gives less workspace than the kernel
// needs.
//
// Requires that all memory given to a call begins at multiples of 64 bytes.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

// elementwise.cu
absl::StatusOr<Kernel> MakeCast(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeFill(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAdd(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAddBias(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAddN(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGelu(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSetup& setup);

// dropout.cu
absl::StatusOr<Kernel> MakeDropout(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeStoredDropout(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeStoredDropoutGrad(const KernelSetup& setup);

// embedding.cu
absl::StatusOr<Kernel> MakeEmbedding(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeEmbeddingGrad(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbedding(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbeddingAt(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbeddingGrad(const KernelSetup& setup);

// layer_norm.cu
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLayerNormGradInput(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& setup);

// attention.cu
absl::StatusOr<Kernel> MakeCausalAttention(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalAttentionGrad(const KernelSetup& setup);

// split_heads.cc, batch_matmul.cc, causal_softmax.cu: attention without a fused kernel
absl::StatusOr<Kernel> MakeSplitHeads(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeSplitHeadsGrad(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeSwapDims(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalSoftmax(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalSoftmaxGrad(const KernelSetup& setup);

// cached_attention.cu
absl::StatusOr<Kernel> MakeCachedAttention(const KernelSetup& setup);

// cross_entropy.cu
absl::StatusOr<Kernel> MakeRowMax(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeRowSumExp(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePick(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeRowStats(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeMeanNll(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSetup& setup);

// optimizer.cu
absl::StatusOr<Kernel> MakeSumSquares(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAdamW(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeNextAdamW(const KernelSetup& setup);

// copy_slices.cu: slice and zero_fill
absl::StatusOr<Kernel> MakeCopySlices(const KernelSetup& setup);

}  // namespace oneflow::cuda
