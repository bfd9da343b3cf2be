// What a decoder of any public kind is made of, for models that cannot be built here: enough to
// count its parameters exactly and the FLOPs of its products, and to say how it differs from the
// nearest model that can.
//
//   Architecture a{.layers = 36, .hidden = 5120, .heads = 40, .groups = 40, .head_dim = 128, ...};
//   a.parallel = true, a.rotary_share = 0.25, a.gated = false, a.activation = "gelu";
//   CountArchitecture(a).parameters        // 11,846,072,320
//
// It is filled in by whoever reads a foreign description: config.json (read_architecture.h), the
// arguments of Megatron-LM. Nothing is inferred: a field that is not set has the value of Llama.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/recipe.pb.h"

namespace oneflow {

// A difference of a model from the nearest one: theirs against the nearest's.
struct ModelDifference {
  std::string what;          // "MLP of squared relu; nearest: a gated one of silu"
  int64_t parameters = 0;    // theirs - the nearest's
  double flops_a_token = 0;  // of a training step: theirs - the nearest's
  bool operator==(const ModelDifference&) const = default;
};

inline constexpr char kGptActivation[] = "gelu_new", kLlamaActivation[] = "silu",
                      kClampedActivation[] = "clamped silu";

struct Architecture {
  enum class Norm : uint8_t { kRms, kLayer, kLayerWithoutBias, kWithoutWeights };
  enum class Positions : uint8_t { kRotary, kLearned, kAlibi, kNone };
  // Weights of the norms of queries and keys: none, one head's, or all heads'.
  enum class QkNorm : uint8_t { kNone, kOfHead, kOfAllHeads };

  int64_t layers = 0, hidden = 0, vocab = 0;
  int64_t sequence = 0;  // tokens of a sequence; the FLOPs of attention are for it
  bool tied = false;     // head and embedding
  bool head_bias = false;
  int64_t embedding_width = 0;  // with projections to and from `hidden`; 0: hidden

  Positions positions = Positions::kRotary;
  int64_t learned_rows = 0;      // of learned positions; 0: sequence
  double rotary_share = 1;       // of a head's elements
  int64_t unrotated_layers = 0;  // without positions
  double theta = 10000;
  proto::RopeScaling rope_scaling;
  // Of layers with a window, where they have their own theta, or no scaling.
  double window_theta = 0;
  bool windows_unscaled = false;
  std::string other_scaling;  // of rotary frequencies that no form of rope_scaling says: "longrope"

  int64_t heads = 0, groups = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // 0: head_dim
  bool qkv_bias = false, proj_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  int64_t window = 0;            // of attention
  int64_t windowed_layers = -1;  // -1: all, if there is a window
  bool sinks = false;            // a learned logit a head, which takes no value
  double attention_scale = 0, attention_cap = 0, logit_cap = 0, embedding_scale = 1;  // as in Model
  bool gated_attention = false;  // a gate for each element of a head's output, from the queries
  // Latent attention, of DeepSeek: 0 if there is none. `head_dim` is with `rotary_dim`.
  int64_t query_rank = 0, latent_rank = 0, rotary_dim = 0;
  // Layers whose attention is a gated delta rule (Qwen 3 Next) in place of the above.
  int64_t linear_layers = 0, linear_key_heads = 0, linear_value_heads = 0;
  int64_t linear_key_dim = 0, linear_value_dim = 0, linear_kernel = 4;

  int64_t inner = 0;  // width of the MLP of layers without experts, or of all
  bool gated = true;
  std::string activation = "silu";
  bool mlp_bias = false;

  int64_t experts = 0, experts_per_token = 0, expert_inner = 0;
  int64_t dense_layers = 0;  // without experts
  int64_t shared_inner = 0;  // width of the MLP beside the experts
  bool shared_gate = false;  // it is scaled by a gate of one logit
  bool router_bias = false, expert_bias = false;
  bool norm_topk_prob = true;
  std::string scores = "softmax";
  double routed_scale = 1;
  bool moved_choices = false;  // a step moves biases of the choices; buffers, which are not counted

  Norm norm = Norm::kRms;
  double norm_epsilon = 1e-5, norm_offset = 0;
  int64_t block_norms = 2;   // in a block, beside those of queries and keys
  bool norms_after = false;  // they normalise what a branch adds, not what it reads
  bool final_norm = true, embedding_norm = false;
  bool parallel = false;  // attention and MLP read the same stream, and are added together

  // Further differences, which no field tells: "logits are capped at 30".
  std::vector<ModelDifference> others;
};

// Elements of all variables, a tied embedding once; and the products of a training step, forward
// and backward: 6 FLOPs for each weight that a token is multiplied with, and those of attention
// with all positions of the sequence or window, as the MFU counts them.
struct ArchitectureSize {
  int64_t parameters = 0;
  double flops_a_token = 0;
};
ArchitectureSize CountArchitecture(const Architecture& architecture);

// The architecture of a model that can be built. Requires a complete one.
Architecture DescribeModel(const proto::Model& complete);

// True if layers differ in one way at most, as a pattern of blocks says: windows, positions or
// experts. Which layers they are is the usual: dense ones come first, and the last of each few has
// no window, or no positions.
bool IsOnePattern(const Architecture& a);

// What one that can be built says as a model, of the family gpt or llama: the inverse, but for the
// family.
proto::Model SayModel(const Architecture& a, bool is_gpt);

}  // namespace oneflow
