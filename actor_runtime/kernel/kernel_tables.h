// The kernels' tables, one a file: which kinds of docs/ops.md the file computes, and what makes
// their kernels. kernel.cc collects the tables. Kinds that are one matrix product stand in none:
// product.h makes them all.
//
// A factory returns a Kernel for the ports of its `setup`, or UNIMPLEMENTED for a dtype that it
// does not support, or INTERNAL if the plan gives less workspace than the kernel needs.
#pragma once

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

KernelTable AttentionTable();        // attention.cc
KernelTable BatchMatmulTable();      // batch_matmul.cc
KernelTable CachedAttentionTable();  // cached_attention.cc
KernelTable CausalSoftmaxTable();    // causal_softmax.cc
KernelTable CopySlicesTable();       // copy_slices.cc
KernelTable CrossEntropyTable();     // cross_entropy.cc
KernelTable DispatchTable();         // dispatch.cc
KernelTable DropoutTable();          // dropout.cc
KernelTable ElementwiseTable();      // elementwise.cc
KernelTable EmbeddingTable();        // embedding.cc
KernelTable ExpertLinearTable();     // expert_linear.cc
KernelTable LayerNormTable();        // layer_norm.cc
KernelTable LinearGradBiasTable();   // linear_grad_bias.cc
KernelTable LinearRowStatsTable();   // linear_row_stats.cc
KernelTable MemoryCopyTable();       // memory_copy.cc
KernelTable OptimizerTable();        // optimizer.cc
KernelTable PartsTable();            // parts.cc
KernelTable RmsNormTable();          // rms_norm.cc
KernelTable RotaryTable();           // rotary.cc
KernelTable RouteTable();            // route.cc
KernelTable SplitHeadsTable();       // split_heads.cc
KernelTable SplitQkvTable();         // split_qkv.cc

}  // namespace oneflow
