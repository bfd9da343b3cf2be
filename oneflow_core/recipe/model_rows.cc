// The rows of Model: its family and its numbers, or a file. Which numbers a family has is told by
// its defaults (oneflow_core/model/family.h).
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

constexpr double kMostWidth = 1 << 22, kMostPositions = 1 << 24, kMostExperts = 1 << 12;

const Row kModelRows[] = {
    // A row is a few lines, its sentence the last.
    // clang-format off
    {.name = "graph", .is_flag = false, .sentence = "A graph file, or a plan."},
    {.name = "family", .is_flag = false, .sentence = "The model's family."},
    {.name = "preset", .value = "NAME",
     .sentence = "Base configuration: gpt2-124m, gpt3-175b, llama3.1-8b, qwen3-0.6b, ... Default: "
                 "gpt2-124m or llama-124m."},
    {.name = "layers", .value = "N", .least = 1, .most = 10000,
     .foreign = "num_layers n_layers n_layer", .sentence = "Blocks. Default: the preset's."},
    {.name = "heads", .value = "N", .least = 1, .most = 10000,
     .foreign = "num_attention_heads n_heads n_head",
     .sentence = "Attention heads. Default: the preset's."},
    {.name = "hidden", .value = "N", .least = 1, .most = 1 << 20, .foreign = "hidden_size n_embd",
     .sentence = "Width of the residual stream. Default: the preset's."},
    {.name = "sequence", .value = "N", .least = 1, .most = kMostPositions,
     .foreign = "seq_length seq_len block_size",
     .sentence = "Tokens of a sequence. Default: the preset's."},
    {.name = "vocab", .value = "N", .least = 1, .most = 1 << 28, .foreign = "vocab_size",
     .sentence = "Tokens of the vocabulary. Default: the preset's."},
    {.name = "tied", .value = "BOOL",
     .sentence = "The head shares the table of the embedding. Default: the preset's."},
    {.name = "groups", .value = "N", .least = 1, .most = 10000,
     .foreign = "num_query_groups num_key_value_heads n_kv_heads",
     .sentence = "Llama: groups of heads that share a key and a value. Default: the preset's, "
                 "else --heads."},
    {.name = "inner", .value = "N", .least = 1, .most = kMostWidth,
     .foreign = "ffn_hidden_size intermediate_size",
     .sentence = "Llama: width of the gated MLP. Default: the preset's, or 8/3 of a given "
                 "--hidden, up to a multiple of 64."},
    {.name = "head_dim", .value = "N", .rare = true, .least = 1, .most = 1 << 16,
     .foreign = "kv_channels",
     .sentence = "Llama: elements of a head. Default: the preset's, or --hidden / --heads where "
                 "one of them is given."},
    {.name = "theta", .value = "NUMBER", .rare = true, .least = 1.001, .most = 1e15,
     .foreign = "rotary_base rope_theta",
     .sentence = "Llama: base of the rotary frequencies. Default: the preset's."},
    {.name = "rope_scaling", .value = "FACTOR,LOW,HIGH,N", .rare = true, .form = &kRopeScalingForm,
     .sentence = "Llama: scaled rotary frequencies as in Llama 3.1, 8,1,4,8192 there; "
                 "linear:FACTOR; yarn:FACTOR,N,FAST,SLOW; or none. Default: the preset's."},
    {.name = "rotary_share", .value = "SHARE", .rare = true, .least = 0, .most = 1,
     .foreign = "partial_rotary_factor",
     .sentence = "Llama: the part of a head that is turned by its position, 0.5 in GLM 4.5; 0: "
                 "none. Default: the preset's."},
    {.name = "window", .value = "N", .rare = true, .least = 0, .most = kMostPositions,
     .foreign = "sliding_window",
     .sentence = "Llama: last positions that a query sees; 0: all before it. Default: the "
                 "preset's."},
    {.name = "experts", .value = "N", .least = 0, .most = kMostExperts,
     .sentence = "Llama: experts of a mixture, each with an MLP of width --inner (docs/moe.md); "
                 "0: one MLP. Default: the preset's."},
    {.name = "experts_per_token", .value = "N", .least = 1, .most = kMostExperts,
     .foreign = "choices moe_router_topk num_experts_per_tok",
     .sentence = "Llama: experts that a token chooses. Default: the preset's."},
    {.name = "shared_inner", .value = "N", .rare = true, .least = 0, .most = kMostWidth,
     .foreign = "shared moe_shared_expert_intermediate_size",
     .sentence = "Llama: width of a further MLP beside the experts that every token takes. "
                 "Default: the preset's."},
    {.name = "norm_topk_prob", .value = "BOOL", .rare = true, .foreign = "normalized",
     .sentence = "Llama: weights of a token's choices add up to 1. Default: the preset's."},
    {.name = "slots", .value = "NUMBER", .rare = true, .least = 0, .most = kMostExperts,
     .sentence = "Llama: slots of a queue of experts, relative to even routing, as 1.25; later "
                 "tokens are dropped. 0: none is. Default: the preset's."},
    {.name = "slot_groups", .value = "N", .rare = true, .least = 0, .most = kMostExperts,
     .sentence = "Llama: with --slots, groups of experts with a queue each, which devices that "
                 "split experts must divide; 0: the largest divisor of the experts up to 8. "
                 "Default: the preset's."},
    {.name = "capacity", .value = "NUMBER", .rare = true, .least = 0, .most = kMostExperts,
     .sentence = "Llama: --slots with a queue for each expert, the capacity factor of Switch "
                 "Transformers and Megatron-LM. Default: 0, none."},
    {.name = "scores", .value = "softmax|sigmoid", .rare = true,
     .sentence = "Llama: scores of experts, from the router's logits. Default: the preset's."},
    {.name = "bias_rate", .value = "NUMBER", .rare = true, .least = 0, .most = 1,
     .sentence = "Llama: by which a step moves the biases with which experts are chosen, as "
                 "0.001, towards even choices. 0: no biases. Default: the preset's."},
    {.name = "aux_loss_coeff", .value = "NUMBER", .rare = true, .least = 0, .most = 1000,
     .foreign = "balance",
     .sentence = "Llama: factor of the loss that evens out experts, of positions that are routed "
                 "together. Default: the preset's."},
    {.name = "z_loss_coeff", .value = "NUMBER", .rare = true, .least = 0, .most = 1000,
     .foreign = "z",
     .sentence = "Llama: factor of the loss that keeps logits of routers small. Default: the "
                 "preset's."},
    {.name = "routed_positions", .value = "N", .rare = true, .least = 0, .most = kMostPositions,
     .foreign = "run",
     .sentence = "Llama: positions of a sequence that share queues of experts; 0: all of them. "
                 "Default: the preset's."},
    {.name = "norm_epsilon", .value = "NUMBER", .rare = true, .least = 1e-30, .most = 0.5,
     .foreign = "rms_norm_eps", .sentence = "Epsilon of the norms. Default: the preset's."},
    {.name = "qkv_bias", .value = "BOOL", .rare = true, .foreign = "add_qkv_bias",
     .sentence = "Llama: biases of queries, keys and values, as in Qwen 2.5. Default: the "
                 "preset's."},
    {.name = "qk_norm", .value = "BOOL", .rare = true, .foreign = "qk_layernorm",
     .sentence = "Llama: norms of queries and keys, as in Qwen 3. Default: the preset's."},
    {.name = "blocks", .value = "PATTERN", .rare = true, .form = &kBlocksForm,
     .foreign = "layer_types",
     .sentence = "Decoders: classes of blocks, each with numbers of its own, in runs that repeat "
                 "until there are --layers: 5*local(window=1024 theta=10000),full; the last run "
                 "takes all that remain in 3*dense(experts=0 inner=10944),*mixture; or none. "
                 "Default: the preset's."},
    {.name = "norms", .value = "before|after|both", .rare = true,
     .sentence = "Decoders: norms of what a branch reads, of what it adds, or both. Default: the "
                 "preset's."},
    {.name = "norm_offset", .value = "NUMBER", .rare = true, .least = 0, .most = 1,
     .sentence = "Decoders: added to the weights of norms, 1 in Gemma. Default: the preset's."},
    {.name = "norm_all_heads", .value = "BOOL", .rare = true,
     .sentence = "Decoders: norms of queries and keys are over all heads, as in OLMo 2, not over "
                 "each. Default: the preset's."},
    {.name = "activation", .value = "silu|gelu|clamped_silu", .rare = true,
     .sentence = "Decoders: function of the gate; gelu by tanh, as in Gemma; clamped_silu as in "
                 "gpt-oss. Default: the preset's."},
    {.name = "attention_scale", .value = "NUMBER", .rare = true, .least = 0, .most = 1000,
     .sentence = "Decoders: by which scores are multiplied; 0: 1 / sqrt(head_dim). Default: the "
                 "preset's."},
    {.name = "attention_cap", .value = "NUMBER", .rare = true, .least = 0, .most = 1e6,
     .foreign = "attn_logit_softcapping",
     .sentence = "Decoders: scores become CAP tanh(score / CAP), 50 in Gemma 2; 0: they do not. "
                 "Default: the preset's."},
    {.name = "logit_cap", .value = "NUMBER", .rare = true, .least = 0, .most = 1e6,
     .foreign = "final_logit_softcapping",
     .sentence = "Decoders: the same of the logits of tokens, 30 in Gemma 2. Default: the "
                 "preset's."},
    {.name = "sinks", .value = "BOOL", .rare = true,
     .sentence = "Decoders: a learned logit of each head takes part in the softmax of attention, "
                 "as in gpt-oss. Default: the preset's."},
    {.name = "proj_bias", .value = "BOOL", .rare = true,
     .sentence = "Decoders: biases of attention's last product. Default: the preset's."},
    {.name = "router_bias", .value = "BOOL", .rare = true,
     .sentence = "Decoders: biases of a router's logits. Default: the preset's."},
    {.name = "expert_bias", .value = "BOOL", .rare = true,
     .sentence = "Decoders: biases of the products of experts. Default: the preset's."},
    {.name = "routed_scale", .value = "NUMBER", .rare = true, .least = 1e-6, .most = 1e6,
     .foreign = "routed_scaling_factor moe_router_topk_scaling_factor",
     .sentence = "Decoders: by which the weights of a token's choices are multiplied. Default: "
                 "the preset's."},
    {.name = "embedding_scale", .value = "NUMBER", .rare = true, .least = 1e-6, .most = 1e6,
     .sentence = "Decoders: by which embeddings are multiplied, about sqrt(hidden) in Gemma. "
                 "Default: the preset's."},
    {.name = "next_tokens", .value = "N", .rare = true, .least = 0, .most = 1,
     .foreign = "num_nextn_predict_layers mtp_num_layers",
     .sentence = "Decoders: further blocks that predict the token after the next one, in training "
                 "only, as in GLM 4.5 and DeepSeek-V3. Default: 0."},
    {.name = "next_tokens_coeff", .value = "NUMBER", .rare = true, .least = 0, .most = 1000,
     .foreign = "mtp_loss_scaling_factor",
     .sentence = "Decoders: factor of the loss of --next_tokens. Default: the preset's."},
    {.name = "bias", .value = "BOOL", .default_text = "true",
     .sentence = "GPT: biases in linear layers and layer norms."},
    {.name = "dropout", .value = "RATE", .default_text = "0", .least = 0, .most = 0.999,
     .sentence = "GPT: dropout after the embeddings and on both branches, in training only. "
                 "Unfused attention drops probabilities, too."},
    {.name = "attention", .value = "fused|unfused", .default_text = "fused", .rare = true,
     .sentence = "GPT: one kernel that never stores the probabilities, or separate products, "
                 "softmax and dropout."},
    {.name = "masks", .value = "recomputed|stored", .default_text = "recomputed", .rare = true,
     .sentence = "GPT: masks of dropout in the backward; a stored mask takes a byte an element."},
    {.name = "lora", .value = "rank:N,...", .form = &kLoraForm, .foreign = "peft lora_rank lora_r",
     .sentence = "Trains adapters of low rank beside the products of a model, and nothing else: "
                 "rank:16,alpha:32,targets:attn, and dropout:0.05 or rslora behind it. Default "
                 "alpha: twice the rank; default targets: all products of the blocks."},
    {.name = "train_only", .value = "NAMES", .foreign = "modules_to_save",
     .sentence = "Trains no variables but these, and adapters: names, where * is any text, with "
                 "commas between: head.*,h.*.ln_*."},
    // clang-format on
};

}  // namespace

std::span<const Row> ModelRows() { return kModelRows; }

}  // namespace oneflow
