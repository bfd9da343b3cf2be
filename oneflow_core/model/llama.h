// The family of Llama, Mistral, Mixtral and Qwen: a logical graph from a handful of numbers. It
// knows nothing of ranks, meshes or stages; annotate_model.h adds those.
//
//   ASSIGN_OR_RETURN(const proto::Model model, CompleteModel(said));  // model.h: preset, numbers
//   proto::Graph graph = BuildModel(model);
//
// Tensors, with shapes [b = batch, t = sequence, H = hidden, V = vocab, g = groups of heads that
// share a key and a value, r = query heads of a group, d = head_dim, I = inner]:
//   tokens, labels [b,t]; wte [V,H]; blocks h.0 .. h.(layers-1), pre-norm, each
//     x + attn.proj(attention(q, k, v)), with q [b,t,g,r,d] and k, v [b,t,g,d] of
//       attn.split(attn.qkv(norm_1(x))), [b,t,g,r+2,d]: a group's queries, its key and its value;
//       q and k are normalised (qk_norm), then rotated by their positions;
//     then x + mlp.proj(silu(mlp.gate(n)) * mlp.up(n)) of n = norm_2(x), gate and up [b,t,I]; or,
//       with E experts, x + the weighted sum of such an MLP of each of the k that mlp.route chooses
//       from mlp.router(n) [b,t,E], their weights mlp.experts.gate, up [E,H,I] and proj [E,I,H]
//       (docs/moe.md), chosen with mlp.router.bias [E] if a step moves it (`bias_rate`), and of one
//       that all tokens take, if `shared_inner` is not 0;
//   logits [b,t,V] = norm_f(x) against head.weight or wte (tied); loss [] = mean cross entropy.
//
// References: Touvron et al. 2023 (Llama 2), Dubey et al. 2024 (Llama 3), Jiang et al. 2023
// (Mistral 7B), Qwen Team 2024 (Qwen 2.5) and 2025 (Qwen 3); Fedus et al. 2022 (Switch), Jiang et
// al. 2024 (Mixtral), DeepSeek-AI 2024 (DeepSeek-V3).
#pragma once

#include <vector>

#include "oneflow_core/model/family.h"

namespace oneflow {

// The row of the table of families.
Family LlamaFamily();

// Models with a name: "llama-tiny", ..., "llama2-7b", "qwen3-0.6b", ...; `sequence` is the longest
// for which the model was published.
std::vector<Preset> LlamaPresets();

}  // namespace oneflow
