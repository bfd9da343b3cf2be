// The GPT: a logical graph from a handful of numbers. It knows nothing of ranks, meshes or stages;
// where its tensors lie is said by annotate_gpt.h, the second place.
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
//   logits [b,t,V] = ln_f(x) against wte (tied) or head.weight; loss [] = mean cross entropy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  double dropout = 0;  // rate after the embeddings, of attention probabilities and of both branches
};

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
