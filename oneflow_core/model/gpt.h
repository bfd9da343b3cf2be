// The GPT: a logical graph from a handful of numbers. It knows nothing of ranks, meshes or stages;
// annotate_model.h adds those.
//
//   ASSIGN_OR_RETURN(GptConfig config, GptPreset("gpt2-124m"));
//   config.bias = false;
//   RETURN_IF_ERROR(CheckGptConfig(config));
//   proto::Graph graph = BuildGpt(config);
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

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/model/family.h"
#include "proto/graph.pb.h"

namespace oneflow {

struct GptConfig {
  std::string name = "gpt";
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t hidden = 768;
  int64_t sequence = 1024;
  int64_t vocab = 50257;
  bool bias = true;    // in all linears and layer norms
  bool tied = true;    // the head is the token embedding, transposed
  double dropout = 0;  // rate after the embeddings, of both branches and of unfused probabilities
  bool fused_attention = true;  // one op that never stores the probabilities
  bool stored_masks = false;    // dropout keeps its masks for the backward, a byte an element
  double epsilon = 1e-5;        // of the layer norms
};

// The row of the table of families.
Family GptFamily();

// A configuration with a name: "tiny", "small", "gpt2-124m", ... , "gpt3-175b".
absl::StatusOr<GptConfig> GptPreset(std::string_view name);
std::vector<std::string> GptPresets();

// Every number is in its range, and heads divide hidden; errors name the flag.
absl::Status CheckGptConfig(const GptConfig& config);

// Requires CheckGptConfig(config).ok().
proto::Graph BuildGpt(const GptConfig& config);

// Elements of all variables, a tied embedding once.
int64_t ParameterCount(const GptConfig& config);

}  // namespace oneflow
