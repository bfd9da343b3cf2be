// The factories of the kernels, one for each kind of docs/ops.md; kernel.cc's table names them all.
// Each returns a Kernel for the ports of `setup`, or UNIMPLEMENTED for a dtype that it does not
// support, or INTERNAL if the plan gives less workspace than the kernel needs.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// cast.cc
absl::StatusOr<Kernel> MakeCast(const KernelSetup& setup);

// elementwise.cc
absl::StatusOr<Kernel> MakeFill(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAdd(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAddBias(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAddN(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGelu(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSetup& setup);

// dropout.cc
absl::StatusOr<Kernel> MakeDropout(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeStoredDropout(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeStoredDropoutGrad(const KernelSetup& setup);

// matmul.cc, linear.cc
absl::StatusOr<Kernel> MakeMatmul(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeMatmulGradB(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinear(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearAdd(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearGelu(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearGeluGradInput(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearGradInput(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearGradWeight(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& setup);

// embedding.cc
absl::StatusOr<Kernel> MakeEmbedding(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeEmbeddingGrad(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbedding(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbeddingAt(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePositionalEmbeddingGrad(const KernelSetup& setup);

// layer_norm.cc
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLayerNormGradInput(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& setup);

// attention.cc
absl::StatusOr<Kernel> MakeCausalAttention(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalAttentionGrad(const KernelSetup& setup);

// split_heads.cc, batch_matmul.cc, causal_softmax.cc: attention without a fused kernel
absl::StatusOr<Kernel> MakeSplitHeads(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeSplitHeadsGrad(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeSwapDims(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeBatchMatmul(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalSoftmax(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCausalSoftmaxGrad(const KernelSetup& setup);

// cached_attention.cc
absl::StatusOr<Kernel> MakeCachedAttention(const KernelSetup& setup);

// cross_entropy.cc
absl::StatusOr<Kernel> MakeRowMax(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeRowSumExp(const KernelSetup& setup);
absl::StatusOr<Kernel> MakePick(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeRowStats(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeMeanNll(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSetup& setup);

// optimizer.cc
absl::StatusOr<Kernel> MakeSumSquares(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeAdamW(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeNextAdamW(const KernelSetup& setup);

// copy_slices.cc: slice and zero_fill
absl::StatusOr<Kernel> MakeCopySlices(const KernelSetup& setup);

}  // namespace oneflow
