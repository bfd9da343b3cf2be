// The family of Llama, Mistral, Mixtral and Qwen: a logical graph from a handful of numbers. It
// knows nothing of ranks, meshes or stages; annotate_model.h adds those.
//
//   ASSIGN_OR_RETURN(LlamaConfig config, LlamaPreset("llama3.1-8b"));
//   config.sequence = 8192;
//   RETURN_IF_ERROR(CheckLlamaConfig(config));
//   proto::Graph graph = BuildLlama(config);
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
//       that all tokens take, if `shared` is not 0;
//   logits [b,t,V] = norm_f(x) against head.weight or wte (tied); loss [] = mean cross entropy.
//
// References: Touvron et al. 2023 (Llama 2), Dubey et al. 2024 (Llama 3), Jiang et al. 2023
// (Mistral 7B), Qwen Team 2024 (Qwen 2.5) and 2025 (Qwen 3); Fedus et al. 2022 (Switch), Jiang et
// al. 2024 (Mixtral), DeepSeek-AI 2024 (DeepSeek-V3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/model/family.h"
#include "proto/graph.pb.h"

namespace oneflow {

// The default is llama-124m, of the size of GPT-2 124M.
struct LlamaConfig {
  std::string name = "llama";
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t inner = 2432;
  int64_t heads = 12;  // of queries
  int64_t groups = 4;  // of heads that share a key and a value; heads: each has its own
  int64_t head_dim = 64;
  int64_t sequence = 1024;
  int64_t vocab = 50257;
  double theta = 10000;                                // base of the rotary frequencies
  std::optional<RotaryOptions::Scaling> scaling = {};  // of Llama 3.1
  double epsilon = 1e-5;                               // of the norms
  bool tied = true;        // the head is the token embedding, transposed
  bool qkv_bias = false;   // Qwen 2.5
  bool qk_norm = false;    // Qwen 3: queries and keys are normalised, over each head
  int64_t window = 0;      // Mistral: the last positions that a query sees; 0: all before it
  int64_t experts = 0;     // of a mixture, each with an MLP of width `inner`; 0: one MLP
  int64_t choices = 2;     // experts of a token
  int64_t shared = 0;      // width of a further MLP that every token takes; 0: none
  bool normalized = true;  // the weights of a token's choices add up to 1
  double capacity = 0;     // slots of an expert, relative to even routing; 0: nothing is dropped
  std::string scores = "softmax";  // of the router: "softmax" or "sigmoid"
  double bias_rate = 0;   // by which a step moves the bias of an expert's choice; 0: no bias
  double balance = 0.01;  // factor of the loss that evens out experts (op route)
  double z = 0;           // factor of the loss that keeps the router's logits small
  int64_t run = 0;        // positions that share a queue (docs/moe.md); 0: the sequence
};

// The row of the table of families.
Family LlamaFamily();

// A configuration with a name: "llama-tiny", ..., "llama2-7b", "qwen3-0.6b", ...; `sequence` is the
// longest for which the model was published.
absl::StatusOr<LlamaConfig> LlamaPreset(std::string_view name);
std::vector<std::string> LlamaPresets();

// The usual width of a gated MLP with as many weights as one of 4 * hidden: 8/3 of it, rounded up
// to a multiple of 64.
int64_t UsualInner(int64_t hidden);

// Every number is in its range, groups divide heads, head_dim is even; errors name the flag.
absl::Status CheckLlamaConfig(const LlamaConfig& config);

// Requires CheckLlamaConfig(config).ok().
proto::Graph BuildLlama(const LlamaConfig& config);

// Elements of all variables, a tied embedding once.
int64_t ParameterCount(const LlamaConfig& config);
// Elements that the computation of one token reads: of a mixture, only the chosen experts count.
int64_t ActiveParameterCount(const LlamaConfig& config);

}  // namespace oneflow
