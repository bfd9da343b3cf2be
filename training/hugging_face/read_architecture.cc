#include "training/hugging_face/read_architecture.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/architecture_reader.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

using Json = ConfigFields::Json;
using Positions = Architecture::Positions;
using QkNorm = Architecture::QkNorm;

// The usual names of keys.
constexpr std::initializer_list<const char*> kLayers = {"num_hidden_layers", "n_layer", "n_layers",
                                                        "num_layers"},
                                             kHidden = {"hidden_size", "n_embd", "d_model",
                                                        "n_embed"},
                                             kHeads = {"num_attention_heads", "n_head", "n_heads",
                                                       "num_heads"};

// Keys that decide nothing of a plan.
constexpr const char* kIdle[] = {"architectures",
                                 "model_type",
                                 "transformers_version",
                                 "_name_or_path",
                                 "auto_map",
                                 "torch_dtype",
                                 "dtype",
                                 "use_cache",
                                 "initializer_range",
                                 "pretraining_tp",
                                 "attention_dropout",
                                 "attn_pdrop",
                                 "embd_pdrop",
                                 "resid_pdrop",
                                 "hidden_dropout",
                                 "resid_dropout",
                                 "embd_dropout",
                                 "hidden_dropout_prob",
                                 "output_router_logits",
                                 "router_aux_loss_coef",
                                 "aux_loss_alpha",
                                 "task_specific_params",
                                 "output_attentions",
                                 "output_hidden_states",
                                 "return_dict",
                                 "layer_norm_eps",
                                 "rope_scaling",
                                 "rope_parameters",
                                 "quantization_config",
                                 "vision_config",
                                 "is_decoder",
                                 "attn_implementation",
                                 "_attn_implementation",
                                 "use_flash_attn",
                                 "torchscript",
                                 "num_nextn_predict_layers",
                                 "ep_size",
                                 "seq_aux",
                                 "max_window_layers",
                                 "name",
                                 "bos_token",
                                 "eos_token",
                                 "head_dim",
                                 "init_std",
                                 "audio_config",
                                 "text_config",
                                 "scale_attn_weights",
                                 "rope_type",
                                 "id2label",
                                 "label2id",
                                 "moe_layer_freq",
                                 "topk_group",
                                 "n_group",
                                 "topk_method",
                                 "use_sliding_window",
                                 "chunk_size_feed_forward",
                                 "classifier_dropout",
                                 "summary_type",
                                 "summary_use_proj",
                                 "summary_first_dropout",
                                 "summary_activation",
                                 "summary_proj_to_labels",
                                 "num_experts_per_tok",
                                 "is_encoder_decoder",
                                 "add_cross_attention"};

void ReadRotations(ArchitectureReader& r, const std::string& where) {
  Architecture& a = r.a;
  a.theta = r.Number({"rope_theta", "rotary_emb_base", "rotary_base"}, a.theta);
  a.rotary_share = r.Number({"partial_rotary_factor", "rotary_pct", "rotary_percent", "rope_pct"},
                            a.rotary_share);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* object = r.fields.Find(key);
    if (object == nullptr || !object->is_object()) continue;
    // Newer models have an entry for each type of layers.
    if (const auto full = object->find("full_attention"); full != object->end()) object = &*full;
    if (!object->is_object()) continue;
    ConfigFields rope(*object, where, std::string(key) + ".");
    a.theta = rope.Number("rope_theta", a.theta);
    a.rotary_share = rope.Number("partial_rotary_factor", a.rotary_share);
    const std::string type = rope.String(rope.Has("rope_type") ? "rope_type" : "type", "default");
    if (type == "default") continue;
    const bool mixed = rope.Has("mscale") || rope.Has("mscale_all_dim");
    if (mixed || !ReadRopeScaling(rope, type, a.sequence, a.rope_scaling)) a.other_scaling = type;
    r.fields.Keep(rope.status());
  }
}

void ReadWindows(ArchitectureReader& r) {
  Architecture& a = r.a;
  const bool used = r.Bool({"use_sliding_window"}, true);
  if (r.Has({"sliding_window", "sliding_window_size"}) && used) {
    a.window = r.Count({"sliding_window", "sliding_window_size"}, 0);
  }
  if (const auto sliding = r.CountInList("layer_types", "sliding_attention")) {
    a.windowed_layers = *sliding;
  }
  if (const auto linear = r.CountInList("layer_types", "linear_attention")) {
    a.linear_layers = *linear;
  }
  if (const auto chunked = r.CountInList("layer_types", "chunked_attention"); chunked > 0) {
    a.window = r.Count({"attention_chunk_size"}, 0);
    a.windowed_layers = *chunked;
  }
}

void ReadMixture(ArchitectureReader& r) {
  Architecture& a = r.a;
  a.experts = r.Count({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"},
                      a.experts);
  if (a.experts == 0) return;
  a.experts_per_token = r.Size(
      {"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"}, 2);
  a.expert_inner = r.Size({"moe_intermediate_size", "expert_ffn_hidden_size"}, a.inner);
  a.norm_topk_prob = r.Bool({"norm_topk_prob"}, a.norm_topk_prob);
  a.scores = r.String({"scoring_func"}, a.scores);
  a.dense_layers = r.Count({"first_k_dense_replace"}, a.dense_layers);
  if (const int64_t every = r.Size({"decoder_sparse_step"}, 1); every > 1) {
    a.dense_layers = a.layers - a.layers / every;
  }
  if (const Json* dense = r.fields.Find(r.Name({"mlp_only_layers"}));
      dense != nullptr && dense->is_array() && !dense->empty()) {
    a.dense_layers = std::max<int64_t>(a.dense_layers, static_cast<int64_t>(dense->size()));
  }
  const int64_t shared =
      r.Count({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0);
  a.shared_inner = r.Count({"shared_expert_intermediate_size", "shared_intermediate_size"},
                           shared * a.expert_inner);
  a.routed_scale = r.Number({"routed_scaling_factor"}, 1);
  const int64_t groups = r.Count({"n_group"}, 1), limit = r.Count({"topk_group"}, 1);
  if (groups > 1 && limit < groups) {
    r.Differ(
        absl::StrCat("experts of a token from ", limit, " of ", groups, " groups, here from all"));
  }
}

void ReadLatent(ArchitectureReader& r) {
  Architecture& a = r.a;
  a.latent_rank = r.Count({"kv_lora_rank"}, 0);
  if (a.latent_rank == 0) return;
  a.query_rank = r.Count({"q_lora_rank"}, 0);
  a.rotary_dim = r.Size({"qk_rope_head_dim"}, 64);
  a.head_dim = a.rotary_dim + r.Size({"qk_nope_head_dim"}, 128);
  a.value_dim = r.Size({"v_head_dim"}, 128);
}

void ReadUsual(ArchitectureReader& r, const std::string& where) {
  Architecture& a = r.a;
  a.layers = r.Size(kLayers, std::nullopt);
  a.hidden = r.Size(kHidden, std::nullopt);
  a.heads = r.Size(kHeads, std::nullopt);
  a.vocab = r.Size({"vocab_size", "padded_vocab_size"}, std::nullopt);
  a.groups = r.Size({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"},
                    a.groups > 0 ? a.groups : a.heads);
  a.sequence = r.Size({"max_position_embeddings", "n_positions", "max_seq_len", "max_seq_length",
                       "max_sequence_length", "seq_length", "n_ctx"},
                      a.sequence > 0 ? a.sequence : 2048);
  const bool states_head = a.head_dim > 0 || r.Has({"head_dim", "kv_channels"});
  if (!states_head && a.hidden % a.heads != 0) {
    r.fields.Refuse(r.Name(kHeads),
                    absl::StrCat("does not divide \"", r.Name(kHidden), "\": ", a.hidden));
  }
  const int64_t usual_head = a.head_dim > 0 ? a.head_dim : std::max<int64_t>(a.hidden / a.heads, 1);
  a.head_dim = r.Size({"head_dim", "kv_channels", "attention_head_dim"}, usual_head);
  a.inner =
      r.Size({"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff"}, 4 * a.hidden);
  a.activation = r.String({"hidden_activation", "hidden_act", "activation_function", "activation"},
                          a.activation);
  if (a.activation == "gelu_pytorch_tanh" || a.activation == "gelu_fast") {
    a.activation = kGptActivation;
  }
  if (a.activation == "swish") a.activation = kLlamaActivation;
  a.norm_epsilon = r.Number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                             "layernorm_epsilon", "norm_epsilon", "norm_eps"},
                            a.norm_epsilon);
  a.tied = r.Bool({"tie_word_embeddings"}, a.tied);
  a.qkv_bias = r.Bool({"qkv_bias", "add_qkv_bias", "use_qkv_bias"}, a.qkv_bias);
  if (r.Has({"attention_bias"})) a.qkv_bias = a.proj_bias = r.Bool({"attention_bias"}, false);
  a.mlp_bias = r.Bool({"mlp_bias"}, a.mlp_bias);
  if (r.Bool({"use_qk_norm", "qk_layernorm", "qk_norm"}, a.qk_norm != QkNorm::kNone)) {
    if (a.qk_norm == QkNorm::kNone) a.qk_norm = QkNorm::kOfHead;
  } else {
    a.qk_norm = QkNorm::kNone;
  }
  ReadLatent(r);
  ReadRotations(r, where);
  ReadWindows(r);
  ReadMixture(r);
}

void NameUnread(ArchitectureReader& r, const Json& json, const std::string& type) {
  std::vector<std::string> unread;
  for (const auto& [key, value] : json.items()) {
    const bool idle = std::find(std::begin(kIdle), std::end(kIdle), key) != std::end(kIdle) ||
                      absl::EndsWith(key, "_token_id") || value.is_null() || value.is_object();
    if (!idle && !r.read().contains(key)) unread.push_back(key);
  }
  r.Differ(absl::StrCat("the type ", type, " is not known: read by the usual names of keys",
                        unread.empty() ? "" : ", not understood: ", absl::StrJoin(unread, " ")));
}

// What is no decoder, by its keys.
absl::Status CheckDecoder(ConfigFields& fields, const Json& json) {
  if (!fields.Has("model_type") && !json.contains("hidden_size") && !json.contains("n_embd")) {
    fields.Refuse("model_type", "is missing: it is JSON, and no config.json of a model",
                  "give the config.json of a decoder, or the folder with it");
  }
  fields.Require("is_encoder_decoder", false);
  if (const Json* list = fields.Find("architectures"); list != nullptr && list->is_array()) {
    for (const Json& name : *list) {
      if (!name.is_string()) continue;
      for (const char* part : {"ForMaskedLM", "ForPreTraining", "Encoder", "ForImageClass"}) {
        if (!absl::StrContains(name.get<std::string>(), part)) continue;
        fields.Refuse("architectures", "is of no decoder", "give the config.json of a decoder");
      }
    }
  }
  for (const char* key : {"ssm_cfg", "state_size", "mamba_d_state", "mamba_n_heads",
                          "mamba_num_heads", "attention_hidden_size"}) {
    if (fields.Has(key)) {
      fields.Refuse(key, "is of a state space or a recurrence, which has nothing near it here",
                    "give a model whose layers are attention and MLPs");
    }
  }
  return fields.status();
}

}  // namespace

const char* ArchitectureReader::Name(Names names) {
  for (const char* name : names) {
    if (fields.Contains(name)) read_.insert(name);
  }
  for (const char* name : names) {
    if (fields.Has(name)) return name;
  }
  return *names.begin();
}

int64_t ArchitectureReader::Count(Names names, int64_t otherwise) {
  const char* name = Name(names);
  const Json* value = fields.Find(name);
  if (value != nullptr && (*value == 0 || *value == -1 || *value == false)) return 0;
  return value == nullptr ? otherwise : fields.Size(name, otherwise);
}

bool ArchitectureReader::Bool(Names names, bool otherwise) {
  const char* name = Name(names);
  return fields.Bool(name, otherwise);
}

std::optional<int64_t> ArchitectureReader::CountInList(const char* key, const Json& value) {
  const Json* list = fields.Find(Name({key}));
  if (list == nullptr || !list->is_array()) return std::nullopt;
  return std::count(list->begin(), list->end(), value);
}

void ArchitectureReader::DifferIfNot(const char* key, double usual, const std::string& what,
                                     const std::string& here) {
  const Json* value = fields.Find(Name({key}));
  if (value == nullptr || !value->is_number() || value->get<double>() == usual) return;
  Differ(absl::StrCat(what, " ", JsonText(*value), ", here ", here));
}

absl::StatusOr<ReadArchitectureResult> ReadArchitecture(std::string_view text,
                                                        const std::string& where) {
  ASSIGN_OR_RETURN(const Json full, ParseStrictJson(text, where));
  ConfigFields top(full, where);
  const Json* json = &full;
  std::string prefix;
  if (const Json* part = top.Find("text_config"); part != nullptr && part->is_object()) {
    const bool is_there = std::any_of(kLayers.begin(), kLayers.end(),
                                      [&](const char* key) { return full.contains(key); });
    if (!is_there) json = part, prefix = "text_config.";
  }
  ConfigFields checked(*json, where, prefix);
  RETURN_IF_ERROR(CheckDecoder(checked, *json));
  ArchitectureReader reader(*json, where, prefix);
  const std::string type = reader.fields.String("model_type", top.String("model_type", "unknown"));
  const bool known = BeginType(type, reader);
  ReadUsual(reader, where);
  EndType(type, reader);
  RETURN_IF_ERROR(reader.fields.status());
  if (!known) NameUnread(reader, *json, type);
  if (json != &full && (full.contains("vision_config") || full.contains("audio_config"))) {
    reader.Differ("parts for images or sound, which are not read, here none");
  }
  if (top.Has("quantization_config")) {
    reader.Differ("quantized weights, here those of the plan's precision");
  }
  return ReadArchitectureResult{type, std::move(reader.a)};
}

}  // namespace oneflow
