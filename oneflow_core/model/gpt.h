// The GPT: a logical graph from a handful of numbers. It knows nothing of ranks, meshes or stages;
// annotate_model.h adds those.
//
//   ASSIGN_OR_RETURN(const proto::Model model, CompleteModel(said));  // model.h: preset, numbers
//   proto::Graph graph = BuildModel(model);
//
// Tensors, with shapes [b = batch, t = sequence, H = hidden, V = vocab]:
//   tokens, labels [b,t]; wte [V,H]; wpe [t,H]; blocks h.0 .. h.(layers-1), pre-norm, each
//     x + attn.proj(attn.core(attn.qkv(ln_1(x)))), then x + mlp.proj(gelu(mlp.fc(ln_2(x))));
//   where dropout > 0: embed.drop, h.I.attn.drop and h.I.mlp.drop before the additions;
//   where attention is unfused attn.core is softmax(q k^T) v of ops attn.core.split, .scores,
//     .softmax, .drop (where dropout > 0) and .values: the probabilities are tensors of the graph,
//     as in the memory tables of Korthikanti et al. 2022;
//   logits [b,t,V] = ln_f(x) against wte (tied) or head.weight; loss [] = mean cross entropy.
//
// Next: proto/graph.proto, the form of the graph.
#pragma once

#include "oneflow_core/model/family.h"

namespace oneflow {

// The row of the table of families.
Family GptFamily();

}  // namespace oneflow
