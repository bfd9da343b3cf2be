// The op families: each function returns the definitions of one file. registry.cc collects them.
// Internal to op/.
#pragma once

#include <vector>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

std::vector<OpDef> SourceOps();           // source.cc
std::vector<OpDef> MatmulOps();           // matmul.cc
std::vector<OpDef> BatchMatmulOps();      // batch_matmul.cc
std::vector<OpDef> LinearOps();           // linear.cc
std::vector<OpDef> LinearGradOps();       // linear_grad.cc
std::vector<OpDef> EmbeddingOps();        // embedding.cc
std::vector<OpDef> LayerNormOps();        // layer_norm.cc
std::vector<OpDef> RmsNormOps();          // rms_norm.cc
std::vector<OpDef> RotaryOps();           // rotary.cc
std::vector<OpDef> GatedOps();            // gated.cc
std::vector<OpDef> RouteOps();            // route.cc
std::vector<OpDef> DispatchOps();         // dispatch.cc
std::vector<OpDef> ExpertLinearOps();     // expert_linear.cc
std::vector<OpDef> ElementwiseOps();      // elementwise.cc
std::vector<OpDef> DropoutOps();          // dropout.cc
std::vector<OpDef> AttentionOps();        // attention.cc
std::vector<OpDef> CausalAttentionOps();  // causal_attention.cc
std::vector<OpDef> SplitQkvOps();         // split_qkv.cc
std::vector<OpDef> PartsOps();            // parts.cc
std::vector<OpDef> SplitHeadsOps();       // split_heads.cc
std::vector<OpDef> CausalSoftmaxOps();    // causal_softmax.cc
std::vector<OpDef> CachedAttentionOps();  // cached_attention.cc
std::vector<OpDef> CrossEntropyOps();     // cross_entropy.cc
std::vector<OpDef> LinearRowStatsOps();   // linear_row_stats.cc
std::vector<OpDef> OptimizerOps();        // optimizer.cc
std::vector<OpDef> BoxingOps();           // boxing.cc

}  // namespace oneflow
