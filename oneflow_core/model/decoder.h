// Decoders: the logical graph of Llama and of what differs from it by numbers alone, as Gemma,
// gpt-oss, OLMo, GLM and SmolLM. The families (llama.h, gemma.h, ...) give defaults, presets and
// the names of tensors in files. It knows nothing of ranks, meshes or stages; annotate_model.h adds
// those.
//
//   ASSIGN_OR_RETURN(const proto::Model model, CompleteModel(said));  // model.h: preset, numbers
//   proto::Graph graph = BuildModel(model);
//
// Tensors, with shapes [b = batch, t = sequence, H = hidden, V = vocab, g = groups of heads that
// share a key and a value, r = query heads of a group, d = head_dim, I = inner]:
//   tokens, labels [b,t]; wte [V,H], whose rows are multiplied by embedding_scale; blocks h.0 ..
//   h.(layers-1), each with the numbers of its class (block_numbers.h):
//     x + attn.norm(attn.proj(attention(q, k, v, attn.sinks))), with q [b,t,g,r,d] and k, v
//       [b,t,g,d] of attn.split(attn.qkv(norm_1(x))), [b,t,g,r+2,d]: a group's queries, its key and
//       its value; q and k are normalised (qk_norm), over a head or all of them (norm_all_heads),
//       then the first rotary_share of a head is rotated by its position;
//     then x + mlp.norm(mlp.proj(f(mlp.gate(n), mlp.up(n)))) of n = norm_2(x), gate and up [b,t,I],
//       f = silu(gate) * up and the like (activation); or, with E experts, x + mlp.norm(the
//       weighted sum of such an MLP of each of the k that mlp.route chooses from mlp.router(n)
//       [b,t,E]), their weights mlp.experts.gate, up [E,H,I] and proj [E,I,H] (docs/moe.md), chosen
//       with mlp.router.bias [E] if a step moves it (`bias_rate`), and of one that all tokens take,
//       if `shared_inner` is not 0;
//     norm_1 and norm_2 are there if `norms` is before or both, attn.norm and mlp.norm if after or
//     both; norms multiply by norm_offset + their weight;
//   logits [b,t,V] = norm_f(x) against head.weight or wte (tied), capped by logit_cap; loss [] =
//   mean cross entropy; with next_tokens, also mtp.loss, which acts through its gradient alone, of
//   next_tokens, next_labels [b,t] and a block `mtp` more behind norm_f.
//
// References: Touvron et al. 2023 (Llama 2), Dubey et al. 2024 (Llama 3), Jiang et al. 2023
// (Mistral 7B), Qwen Team 2024 (Qwen 2.5) and 2025 (Qwen 3); Fedus et al. 2022 (Switch), Jiang et
// al. 2024 (Mixtral), DeepSeek-AI 2024 (DeepSeek-V3); Gemma Team 2024 (Gemma 2) and 2025 (Gemma 3);
// OpenAI 2025 (gpt-oss); OLMo Team 2024 (OLMo 2); GLM Team 2025 (GLM 4.5).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/model/family.h"

namespace oneflow {

// The row of a family of decoders: `own` has the defaults that differ from those of Llama.
Family DecoderFamily(std::string_view name, std::string_view models, std::string_view own,
                     std::vector<Preset> presets);

// Family::finish and Family::build of decoders.
absl::Status FinishDecoder(const proto::Model& said, proto::Model* model);
proto::Graph BuildDecoder(const proto::Model& complete, const std::string& name);

// How queries and keys of blocks with these numbers turn, and how many elements of a head do.
RotaryOptions DecoderRotary(const proto::Model& numbers);
int64_t RotatedElements(const proto::Model& numbers);
// The share of a head of which RotatedElements are so many.
double RotaryShare(int64_t rotated, int64_t head_dim);

}  // namespace oneflow
