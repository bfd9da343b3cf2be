// The model of Megatron's flags.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

// Tokens of the tokenizers that have one vocabulary.
constexpr std::pair<const char*, int64_t> kVocabularies[] = {
    {"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}, {"GPTSentencePieceTokenizer", 0}};

// Tokens of well-known public tokenizers.
constexpr std::pair<const char*, int64_t> kPublic[] = {
    {"llama-3", 128256}, {"llama3", 128256},  {"llama-2", 32000},
    {"llama2", 32000},   {"mixtral", 32000},  {"mistral-7b-v0.3", 32768},
    {"mistral", 32000},  {"qwen2", 151936},   {"qwen3", 151936},
    {"gpt2", 50257},     {"gpt-neox", 50432}, {"deepseek-v3", 129280},
    {"nemotron", 256000}};

// The size of the vocabulary; `from_tokenizer`: by its name, which is no size of a file.
std::optional<int64_t> FindVocab(Settings& settings, const MegatronForm& form,
                                 const ForeignInput& input) {
  const std::optional<int64_t> said = settings.Int("vocab_size");
  const std::string type = settings.Text("tokenizer_type").value_or(form.default_tokenizer);
  const Setting* model = settings.Find("tokenizer_model");
  if (input.vocab) return input.vocab;
  if (said) return said;
  for (const auto& [name, vocab] : kVocabularies) {
    if (type == name && vocab > 0) return vocab;
  }
  if (type != "HuggingFaceTokenizer" || model == nullptr) return std::nullopt;
  const std::string name = absl::AsciiStrToLower(model->ValueText());
  for (const auto& [series, vocab] : kPublic) {
    if (absl::StrContains(name, series)) return vocab;
  }
  return std::nullopt;
}

// "swiglu", "silu", "torch.nn.functional.silu", ...
std::string PlainActivation(std::string name) {
  name = absl::AsciiStrToLower(name.substr(name.rfind('.') + 1));
  if (name == "swiglu" || name == "silu" || name == "swish") return "silu";
  if (name == "squared_relu" || name == "squared-relu") return "squared ReLU";
  if (name == "geglu" || name == "fast-geglu") return "gelu";
  return name;
}

void ReadActivation(Settings& settings, ShapeNumbers& s) {
  s.activation = "gelu";
  // NeMo writes `activation`, configuration classes `activation_func`, a node of YAML its target.
  for (const char* key : {"activation", "activation_func", "activation_func._target_"}) {
    const std::optional<std::string> name = settings.Text(key);
    if (!name) continue;
    s.activation = PlainActivation(*name);
    const std::string plain = absl::AsciiStrToLower(*name);
    if (absl::StrContains(plain, "glu")) s.gated = true;
  }
  settings.Put("activation_func._call_", List::kTaken);
  s.gated = settings.Bool("gated_linear_unit").value_or(s.gated);
  if (settings.Bool("swiglu").value_or(false)) {
    s.gated = true;
    s.activation = "silu";
  }
  if (settings.Bool("squared_relu").value_or(false)) s.activation = "squared ReLU";
  if (settings.Bool("quick_geglu").value_or(false)) {
    s.gated = true;
    s.activation = "quick gelu";
  }
}

void ReadPositions(Settings& settings, ShapeNumbers& s) {
  std::string type = settings.Text("position_embedding_type").value_or("learned_absolute");
  if (settings.Bool("use_rotary_position_embeddings").value_or(false) || type == "rotary") {
    type = "rope";
  }
  s.positions = type == "learned_absolute" || type == "learned" ? "learned" : type;
  const std::optional<int64_t> rows = settings.Int("max_position_embeddings");
  if (s.positions == "learned" && rows) s.position_rows = *rows;
  if (s.positions == "yarn" || s.positions == "mrope") {
    s.other_scaling = type;
    s.positions = "rope";
  }
  s.theta = settings.Number("rotary_base").value_or(10000);
  s.rotary_share = settings.Number("rotary_percent").value_or(1);
  // GPTModelProvider and NeMo write it so.
  if (const auto share = settings.Number("rotary_percentage")) s.rotary_share = *share;
  const double factor = settings.Number("rope_scaling_factor").value_or(8);
  bool scales = settings.Bool("use_rope_scaling").value_or(false);
  scales = settings.Bool("rope_scaling").value_or(scales);
  if (scales) {
    proto::RopeScaling& scaling = s.rope_scaling.emplace();
    scaling.set_factor(factor);
    scaling.set_low(1);
    scaling.set_high(4);
    scaling.set_positions(8192);
  }
}

// "(4095,0)", [4095, 0], "4095": the positions before a query that it sees.
void ReadWindow(Settings& settings, ShapeNumbers& s) {
  const nlohmann::json* value = settings.Value("window_size");
  if (value == nullptr) return;
  std::string text = value->is_string() ? value->get<std::string>() : value->dump();
  text.erase(std::remove_if(
                 text.begin(), text.end(),
                 [](char c) { return c == '(' || c == ')' || c == '[' || c == ']' || c == ' '; }),
             text.end());
  int64_t before = 0;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (!absl::SimpleAtoi(parts[0], &before) || before < 1) {
    return settings.Refuse("window_size", "is no window", "write (N,0)");
  }
  s.window = before + 1;
}

// Layers without experts of "2", every second, or of "[0]*3+[1]*58", a flag for each.
int64_t CountDense(Settings& settings, int64_t layers) {
  constexpr char kKey[] = "moe_layer_freq";
  std::string text = settings.Find(kKey)->ValueText();
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](char c) { return c == '(' || c == ')' || c == ' '; }),
             text.end());
  int64_t every = 0;
  if (absl::SimpleAtoi(text, &every)) {
    if (every < 1) settings.Refuse(kKey, "is no frequency", "write 1 or more");
    return every < 1 ? 0 : layers - (layers + every - 1) / every;
  }
  std::vector<int> flags;
  for (const auto term : absl::StrSplit(text, '+')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(term, absl::MaxSplits('*', 1));
    int64_t times = 1;
    const std::string& list = parts.first;
    bool good = list.starts_with('[') && list.ends_with(']') &&
                (parts.second.empty() || absl::SimpleAtoi(parts.second, &times)) && times >= 0 &&
                times <= layers;
    std::vector<int> once;
    for (const auto word :
         absl::StrSplit(good ? list.substr(1, list.size() - 2) : "", ',', absl::SkipEmpty())) {
      int flag = 0;
      good = good && absl::SimpleAtoi(word, &flag) && (flag == 0 || flag == 1);
      once.push_back(flag);
    }
    if (!good) {
      settings.Refuse(kKey, "is no frequency", "write N, or a list as \"([0]*3+[1]*58)\"");
      return 0;
    }
    for (int64_t i = 0; i < times; ++i) flags.insert(flags.end(), once.begin(), once.end());
  }
  if (static_cast<int64_t>(flags.size()) != layers) {
    settings.Refuse(kKey, absl::StrCat("has ", flags.size(), " flags for ", layers, " layers"),
                    "write one for each");
  }
  return std::count(flags.begin(), flags.end(), 0);
}

// DeepSeek's attention: heads of a latent vector. Defaults are those of MLATransformerConfig.
void ReadLatent(Settings& settings, ShapeNumbers& s) {
  const std::optional<int64_t> query = settings.Int("q_lora_rank");
  const int64_t latent = settings.Int("kv_lora_rank").value_or(512);
  const int64_t head = settings.Int("qk_head_dim").value_or(128);
  const int64_t rotary = settings.Int("qk_pos_emb_head_dim").value_or(64);
  const int64_t value = settings.Int("v_head_dim").value_or(128);
  if (!settings.Bool("multi_latent_attention").value_or(false)) return;
  s.query_rank = query.value_or(0);
  s.latent_rank = latent;
  s.head_dim = head + rotary;
  s.rotary_dim = rotary;
  s.value_dim = value;
}

void ReadExperts(Settings& settings, ShapeNumbers& s) {
  std::optional<int64_t> experts = settings.Int("num_experts");
  if (!experts) experts = settings.Int("num_moe_experts");
  settings.Int("num_moe_experts");
  s.experts = experts.value_or(0);
  s.experts_per_token = settings.Int("moe_router_topk").value_or(2);
  s.expert_ffn = settings.Int("moe_ffn_hidden_size").value_or(s.ffn);
  s.shared_ffn = settings.Int("moe_shared_expert_intermediate_size").value_or(0);
  s.capacity = settings.Number("moe_expert_capacity_factor");
  s.scores = settings.Text("moe_router_score_function").value_or("softmax");
  s.norm_topk_prob = !settings.Bool("moe_router_pre_softmax").value_or(false);
  const bool biased = settings.Bool("moe_router_enable_expert_bias").value_or(false);
  const double rate = settings.Number("moe_router_bias_update_rate").value_or(1e-3);
  s.bias_rate = biased ? rate : 0;
  // Several kinds of balance may be given, each with its coefficient.
  const nlohmann::json* kinds = settings.Value("moe_router_load_balancing_type");
  const bool several = kinds != nullptr && kinds->is_array();
  const std::string balance =
      several ? "aux_loss" : settings.Text("moe_router_load_balancing_type").value_or("aux_loss");
  const nlohmann::json* coefficients = settings.Value("moe_aux_loss_coeff");
  double aux = 0;
  if (coefficients != nullptr && coefficients->is_array()) {
    for (const auto& one : *coefficients) {
      double number = one.is_number() ? one.get<double>() : 0;
      if (one.is_string() && !absl::SimpleAtod(one.get<std::string>(), &number)) {
        settings.Refuse("moe_aux_loss_coeff", "is no number");
      }
      aux += number;
    }
  } else {
    aux = settings.Number("moe_aux_loss_coeff").value_or(0);
  }
  s.z_loss = settings.Number("moe_z_loss_coeff").value_or(0);
  const nlohmann::json* frequency = settings.Value("moe_layer_freq");
  if (s.experts == 0) {
    s.capacity.reset();
    return;
  }
  s.aux_loss = balance == "none" ? 0 : aux;
  if (balance == "aux_loss" || balance == "global_aux_loss") {
    settings.Put("moe_router_load_balancing_type", List::kNoEquivalent,
                 "evens out experts over a micro-batch: here over each sequence; no bytes and no "
                 "time of note");
  } else if (balance == "sinkhorn") {
    settings.Put("moe_router_load_balancing_type", List::kNoEquivalent,
                 "routing by sinkhorn: here by the highest scores; no bytes of note");
  }
  if (frequency != nullptr) s.dense_layers = CountDense(settings, s.layers);
}

}  // namespace

absl::StatusOr<std::optional<ShapeNumbers>> ReadMegatronShape(Settings& settings,
                                                              const MegatronForm& form,
                                                              const ForeignInput& input,
                                                              Facts* facts) {
  ShapeNumbers s;
  std::optional<int64_t> layers = settings.Int("num_layers");
  const std::optional<int64_t> hidden = settings.Int("hidden_size");
  const std::optional<int64_t> heads = settings.Int("num_attention_heads");
  std::optional<int64_t> sequence = settings.Int("seq_length");
  // Their older names.
  const std::optional<int64_t> encoder_layers = settings.Int("encoder_num_layers");
  const std::optional<int64_t> encoder_sequence = settings.Int("encoder_seq_length");
  if (!layers) layers = encoder_layers;
  if (!sequence) sequence = encoder_sequence;
  if (input.sequence) sequence = input.sequence;
  facts->sequence = sequence;
  ReadActivation(settings, s);
  s.hidden = hidden.value_or(0);
  s.heads = heads.value_or(1);
  s.layers = layers.value_or(0);
  s.sequence = sequence.value_or(0);
  const std::optional<int64_t> ffn = settings.Int("ffn_hidden_size");
  // Of a gated MLP without a width: 8/3 of the hidden size, in units of 64.
  const int64_t gated_width =
      static_cast<int64_t>(4.0 * static_cast<double>(s.hidden) * 2 / 3) / 64 * 64;
  s.ffn = ffn.value_or(s.gated ? gated_width : 4 * s.hidden);
  const std::optional<int64_t> head_dim = settings.Int("kv_channels");
  s.head_dim = head_dim.value_or(s.heads > 0 ? s.hidden / s.heads : 0);
  const std::optional<bool> grouped = settings.Bool("group_query_attention");
  const std::optional<int64_t> groups = settings.Int("num_query_groups");
  // Megatron-DeepSpeed's name.
  const std::optional<int64_t> kv_heads = settings.Int("num_key_value_heads");
  const bool counts = !form.groups_need_switch || grouped.value_or(false);
  s.groups = counts ? groups.value_or(form.groups_need_switch ? 1 : s.heads) : s.heads;
  if (kv_heads) s.groups = *kv_heads;
  const std::string norm = settings.Text("normalization").value_or("LayerNorm");
  s.rms_norm = absl::AsciiStrToLower(norm).find("rms") != std::string::npos;
  s.norm_epsilon = 1e-5;
  for (const char* key : {"norm_epsilon", "layernorm_epsilon"}) {
    if (const auto epsilon = settings.Number(key)) s.norm_epsilon = *epsilon;
  }
  s.biases = form.biases;
  if (settings.Bool("disable_bias_linear").value_or(false)) s.biases = false;
  // NeMo writes `bias`.
  for (const char* key : {"bias", "add_bias_linear"}) {
    if (const auto biases = settings.Bool(key)) s.biases = *biases;
  }
  s.qkv_bias = settings.Bool("add_qkv_bias").value_or(false);
  if (const auto bias = settings.Bool("qkv_bias")) s.qkv_bias = *bias;
  s.qk_norm = settings.Bool("qk_layernorm").value_or(false);
  s.tied = form.tied;
  if (settings.Bool("untie_embeddings_and_output_weights").value_or(false)) s.tied = false;
  if (const auto shares = settings.Bool("share_embeddings_and_output_weights")) s.tied = *shares;
  s.dropout_hidden = settings.Number("hidden_dropout").value_or(form.dropout);
  s.dropout_attention = settings.Number("attention_dropout").value_or(form.dropout);
  ReadPositions(settings, s);
  ReadWindow(settings, s);
  ReadExperts(settings, s);
  ReadLatent(settings, s);
  if (const auto more = settings.Int("mtp_num_layers"); more && *more > 0) {
    s.differences.push_back({.what = absl::StrCat(*more, " more blocks predict further tokens")});
  }
  const std::optional<int64_t> divisor = settings.Int("make_vocab_size_divisible_by");
  const bool pads = settings.Bool("should_pad_vocab").value_or(form.pads_vocab);
  const std::optional<int64_t> vocab = FindVocab(settings, form, input);
  std::optional<int64_t> padded = settings.Int("padded_vocab_size");
  // The latter is Megatron-DeepSpeed's.
  for (const char* key : {"pad_vocab_size", "pad_vocab_size_to"}) {
    if (const auto rows = settings.Int(key); rows && *rows > 0) padded = rows;
  }
  if (vocab) {
    const int64_t multiple = divisor.value_or(form.divisible_by) * facts->degrees.tensor;
    facts->model.vocab_given = *vocab;
    s.vocab = pads ? PadVocab(*vocab, multiple) : *vocab;
    facts->model.vocab_rule =
        pads ? absl::StrCat("up to a multiple of ", divisor.value_or(form.divisible_by),
                            " x tensor = ", multiple)
             : "none";
  }
  if (padded) s.vocab = *padded;
  // A checkpoint, or a folder, has the model.
  const std::pair<bool, Question> needed[] = {
      {layers && hidden && heads, {"the model's layers, width and heads", "--model=config.json"}},
      {sequence.has_value(), {"the length of a sequence", "--sequence=N"}},
      {vocab.has_value() || padded.has_value(), {"the size of the vocabulary", "--vocab=N"}}};
  bool complete = true;
  for (const auto& [known, question] : needed) {
    if (!known) facts->questions.push_back(question);
    complete = complete && known;
  }
  RETURN_IF_ERROR(settings.status());
  if (layers && hidden && heads) {
    for (const auto& [key, value] : {std::pair{"num_layers", *layers},
                                     {"hidden_size", *hidden},
                                     {"num_attention_heads", *heads}}) {
      if (value < 1 || value > (1 << 20)) {
        return InputError(settings.Where(key), "is out of range", "write a size of a model");
      }
    }
    const auto broken = [&](std::string rule, std::string numbers, std::string hint) {
      facts->broken.push_back({.rule = rule, .numbers = numbers, .theirs = rule, .hint = hint});
    };
    const int64_t tensor = facts->degrees.tensor;
    if (*heads % tensor != 0) {
      broken("heads must be a multiple of tensor",
             absl::StrCat(*heads, " is not a multiple of ", tensor),
             absl::StrCat("a tensor degree that divides ", *heads));
    } else if (s.groups % tensor != 0 && tensor % s.groups != 0) {
      broken("query groups must be a multiple of tensor, or divide it",
             absl::StrCat(s.groups, " and ", tensor),
             absl::StrCat("a tensor degree that divides ", s.groups));
    }
    if (!head_dim && *hidden % *heads != 0) {
      broken("heads must divide the hidden size",
             absl::StrCat(*heads, " does not divide ", *hidden), "--kv-channels, or other heads");
      complete = false;
    }
    if (s.groups < 1 || *heads % s.groups != 0) {
      broken("heads must be a multiple of query groups",
             absl::StrCat(*heads, " is not a multiple of ", s.groups), "--num-query-groups N");
      complete = false;
    }
  }
  if (!complete) return std::optional<ShapeNumbers>();
  return std::optional<ShapeNumbers>(s);
}

}  // namespace oneflow::foreign
