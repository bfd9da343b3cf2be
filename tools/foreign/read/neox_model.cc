// The model of GPT-NeoX's arguments.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/neox.h"

namespace oneflow::foreign {
namespace {

std::string NeoxLower(const std::string& text) { return absl::AsciiStrToLower(text); }

// Tokens of a tokenizer, if its name says them.
std::optional<int64_t> NeoxVocab(Settings* settings) {
  const std::string type = NeoxLower(settings->Text("tokenizer_type").value_or("GPT2BPETokenizer"));
  if (type == "gpt2bpetokenizer" || type == "hfgpt2tokenizer") return 50257;
  if (type == "charleveltokenizer") return 512;
  const Setting* file = settings->Find("vocab_file");
  if (file == nullptr) return std::nullopt;
  const std::string name = file->ValueText();
  if (type == "tiktokentokenizer") {
    for (const auto& [encoding, tokens] : {std::pair<std::string_view, int64_t>{"gpt2", 50257},
                                           {"r50k_base", 50257},
                                           {"p50k_base", 50281},
                                           {"cl100k_base", 100277},
                                           {"o200k_base", 200019}}) {
      if (name == encoding) return tokens;
    }
  }
  // The tokenizer of GPT-NeoX-20B and of Pythia.
  if (name.find("20B_tokenizer") != std::string::npos) return 50277;
  return std::nullopt;
}

struct NeoxActivation {
  const char* name;
  const char* function;
  bool gated;
};
constexpr NeoxActivation kNeoxActivations[] = {
    {"gelu", "gelu", false},        {"relu", "relu", false}, {"softsign", "softsign", false},
    {"swish", "silu", false},       {"silu", "silu", false}, {"mish", "mish", false},
    {"geglu", "gelu", true},        {"reglu", "relu", true}, {"swiglu", "silu", true},
    {"bilinear", "identity", true}, {"glu", "sigmoid", true}};

// Width of the MLP: that of a gated one is a third of `intermediate_size`, up to a multiple.
int64_t NeoxWidth(Settings* settings, int64_t hidden, bool gated) {
  int64_t width = 4 * hidden;
  if (const auto said = settings->Int("intermediate_size")) {
    width = *said;
  } else if (const auto factor = settings->Number("expansion_factor")) {
    width = static_cast<int64_t>(*factor * static_cast<double>(hidden));
  }
  const int64_t multiple = std::max<int64_t>(1, settings->Int("mlp_multiple_of").value_or(1));
  if (gated) width = width * 2 / 3 / 2;
  return PadVocab(width, multiple);
}

void ReadNeoxPositions(Settings* settings, ShapeNumbers* shape) {
  const std::string positions = NeoxLower(settings->Text("pos_emb").value_or("learned"));
  shape->positions = positions == "rotary" ? "rope" : positions;
  shape->rotary_share = settings->Number("rotary_pct").value_or(1);
  shape->theta = settings->Number("rotary_emb_base").value_or(10000);
  if (positions != "rotary") {
    settings->Put("rotary_pct", List::kNoEffect, "of rotary positions");
    settings->Put("rotary_emb_base", List::kNoEffect, "of rotary positions");
  } else if (shape->rotary_share != 1) {
    settings->Put(
        "rotary_pct", List::kNoEquivalent,
        absl::StrFormat("rotary positions turn %g %% of each head, here all; no parameter "
                        "and hardly a FLOP",
                        100 * shape->rotary_share));
  }
  if (positions != "rotary" && positions != "learned") {
    settings->Put("pos_emb", List::kNoEquivalent,
                  absl::StrCat("positions are ", positions, ", here learned or rotary"));
  }
}

// Attention of each block: ["flash", "global"] is full attention.
void ReadNeoxAttention(Settings* settings, ShapeNumbers* shape) {
  const nlohmann::json* config = settings->Value("attention_config");
  const std::string text = config == nullptr ? "" : NeoxLower(config->dump());
  for (const char* other : {"local", "sparse", "bigbird", "bslongformer", "gmlp", "amlp", "mamba",
                            "rwkv", "fixed", "variable"}) {
    if (text.find(absl::StrCat("\"", other)) == std::string::npos) continue;
    settings->Put("attention_config", List::kNoEquivalent,
                  absl::StrCat("blocks of ", other, ", here full attention"));
    shape->differences.push_back({absl::StrCat("blocks of ", other, ", here full attention")});
  }
  shape->window = settings->Int("sliding_window_width").value_or(0);
}

void ReadNeoxBranches(Settings* settings, ShapeNumbers* shape) {
  shape->parallel_branches = settings->Bool("gpt_j_residual").value_or(false);
  const bool shares = settings->Bool("gpt_j_tied").value_or(false);
  if (!shape->parallel_branches) return;
  settings->Put("gpt_j_residual", List::kNoEquivalent,
                "attention and MLP stand side by side, not one behind the other: one exchange a "
                "block of the tensor axis in place of two");
  shape->parallel_norms = shares ? 1 : 2;
}

void ReadNeoxBiases(Settings* settings, ShapeNumbers* shape) {
  shape->norm_bias = settings->Bool("use_bias_in_norms").value_or(true);
  const bool attention = settings->Bool("use_bias_in_attn_linear").value_or(true);
  const bool mlp = settings->Bool("use_bias_in_mlp").value_or(true);
  shape->biases = attention && mlp;
  if (attention == mlp) return;
  const int64_t groups = shape->groups > 0 ? shape->groups : shape->heads;
  const int64_t of_attention = (shape->heads + 2 * groups) * shape->head_dim + shape->hidden;
  const int64_t of_mlp = (shape->gated ? 2 : 1) * shape->ffn + shape->hidden;
  shape->differences.push_back(
      {mlp ? "products of the MLP have biases" : "products of attention have biases",
       shape->layers * (mlp ? of_mlp : of_attention)});
}

void ReadNeoxExperts(Settings* settings, ShapeNumbers* shape) {
  const int64_t experts = settings->Int("moe_num_experts").value_or(1);
  const int64_t top = settings->Int("moe_top_k").value_or(1);
  const int64_t interval = settings->Int("moe_expert_interval").value_or(1);
  const auto router = settings->Text("moe_router_type");
  if (experts <= 1) return;
  shape->experts = experts;
  shape->experts_per_token = top;
  shape->expert_ffn = shape->ffn;
  if (router && *router != "topk") {
    settings->Put("moe_router_type", List::kNoEquivalent,
                  "another way to balance the experts; no byte");
  }
  if (interval <= 1) return;
  settings->Put("moe_expert_interval", List::kNoEquivalent,
                "blocks between without experts; here every block has them");
  shape->differences.push_back({"not every block has experts"});
}

void CheckNeoxShape(Settings* settings, const ShapeNumbers& shape, int64_t positions,
                    Facts* facts) {
  const int64_t tensor = facts->degrees.tensor;
  const auto divides = [&](const char* what, int64_t number, const char* by, int64_t divisor,
                           const std::string& theirs) {
    if (divisor < 1 || number % divisor == 0) return;
    facts->broken.push_back({.rule = absl::StrCat(what, " must be a multiple of ", by),
                             .numbers = absl::StrCat(number, " is not a multiple of ", divisor),
                             .theirs = theirs,
                             .hint = absl::StrCat(what, ": ", (number / divisor + 1) * divisor),
                             .where = settings->Where(what)});
  };
  divides("hidden_size", shape.hidden, "num_attention_heads", shape.heads,
          "NeoXArgs.validate_values() hidden_size must be divisible by num_attention_heads");
  divides("num_attention_heads", shape.heads, "model_parallel_size", tensor,
          absl::StrCat(shape.heads, " is not divisible by ", tensor));
  if (shape.groups > 0 && shape.groups != shape.heads) {
    if (shape.heads % shape.groups != 0) {
      divides("num_attention_heads", shape.heads, "num_kv_heads", shape.groups,
              "num_kv_heads must evenly divide num_attention_heads and be no greater than it");
    }
    divides("num_kv_heads", shape.groups, "model_parallel_size", tensor,
            "Number of KV heads must be at least model_parallel_size for now!");
  }
  if (positions > 0 && positions < shape.sequence) {
    facts->broken.push_back(
        {.rule = "max_position_embeddings is at least seq_length",
         .numbers = absl::StrCat(positions, " is less than ", shape.sequence),
         .theirs = "NeoXArgs.validate_values() max_position_embeddings must be bigger or equal "
                   "seq_length",
         .hint = absl::StrCat("max_position_embeddings: ", shape.sequence),
         .where = settings->Where("max_position_embeddings")});
  }
}

}  // namespace

std::vector<int64_t> SpreadNeoxLayers(int64_t layers, int64_t stages) {
  std::vector<int64_t> spread;
  for (int64_t stage = 0; stage < stages; ++stage) {
    spread.push_back(layers / stages + (stage < layers % stages));
  }
  return spread;
}

absl::Status ReadNeoxModel(Settings* settings, const ForeignInput& input, Facts* facts) {
  ShapeNumbers shape;
  const auto need = [&](const char* key) {
    const std::optional<int64_t> number = settings->Int(key);
    if (!number && !settings->Has(key)) {
      facts->questions.push_back({absl::StrCat("what ", key, " is"), "the file that says it"});
    } else if (number && *number < 1) {
      settings->Refuse(key, "is less than 1");
    }
    return std::max<int64_t>(0, number.value_or(0));
  };
  shape.layers = need("num_layers");
  shape.hidden = need("hidden_size");
  shape.heads = need("num_attention_heads");
  const int64_t positions = settings->Int("max_position_embeddings").value_or(0);
  shape.sequence = settings->Int("seq_length").value_or(positions);
  if (shape.sequence > 0) facts->sequence = shape.sequence;
  if (input.sequence) facts->sequence = shape.sequence = *input.sequence;
  shape.groups = settings->Int("num_kv_heads").value_or(shape.heads);
  if (shape.heads > 0) shape.head_dim = shape.hidden / shape.heads;

  const std::string activation = NeoxLower(settings->Text("activation").value_or("gelu"));
  shape.activation = activation;
  for (const NeoxActivation& row : kNeoxActivations) {
    if (activation != row.name) continue;
    shape.gated = row.gated, shape.activation = row.function;
  }
  shape.ffn = NeoxWidth(settings, shape.hidden, shape.gated);
  const std::string norm = NeoxLower(settings->Text("norm").value_or("layernorm"));
  shape.rms_norm = norm.find("rms") != std::string::npos;
  const double of_layer = settings->Number("layernorm_epsilon").value_or(1e-5);
  const double of_rms = settings->Number("rms_norm_epsilon").value_or(1e-8);
  shape.norm_epsilon = shape.rms_norm ? of_rms : of_layer;
  if (norm == "scalenorm") {
    settings->Put("norm", List::kNoEquivalent, "norms of one weight; here one a channel");
  }
  shape.tied = !settings->Bool("no_weight_tying").value_or(false);
  ReadNeoxBiases(settings, &shape);
  ReadNeoxPositions(settings, &shape);
  ReadNeoxAttention(settings, &shape);
  ReadNeoxBranches(settings, &shape);
  ReadNeoxExperts(settings, &shape);
  shape.qk_norm = settings->Bool("use_qk_layernorm").value_or(false);
  facts->dropout_hidden = settings->Number("hidden_dropout").value_or(0);
  facts->dropout_attention = settings->Number("attention_dropout").value_or(0);
  shape.dropout_hidden = facts->dropout_hidden;
  shape.dropout_attention = facts->dropout_attention;

  const int64_t unit = settings->Int("make_vocab_size_divisible_by").value_or(128);
  const std::optional<int64_t> given = NeoxVocab(settings);
  const std::optional<int64_t> padded = settings->Int("padded_vocab_size");
  if (!input.model.empty()) return ReadModelOfFlag(input, facts);
  if (!given && !padded) {
    facts->questions.push_back({"how many tokens the tokenizer has", "padded_vocab_size: N"});
  }
  if (shape.layers == 0 || shape.hidden == 0 || shape.heads == 0) return absl::OkStatus();
  const size_t broken = facts->broken.size();
  CheckNeoxShape(settings, shape, positions, facts);
  if (shape.sequence == 0) {
    facts->questions.push_back({"how long a sequence is", "--sequence=N"});
    return absl::OkStatus();
  }
  if ((!given && !padded) || shape.hidden % shape.heads != 0 ||
      (facts->broken.size() > broken && shape.heads % shape.groups != 0)) {
    return absl::OkStatus();
  }
  const int64_t multiple = std::max<int64_t>(1, unit) * facts->degrees.tensor;
  shape.vocab = padded ? *padded : PadVocab(*given, multiple);
  ASSIGN_OR_RETURN(facts->model, MakeModelFacts(shape));
  facts->model.from = "file";
  facts->model.vocab_given = given.value_or(*padded);
  if (!padded && multiple > 1) {
    facts->model.vocab_rule =
        absl::StrCat("up to a multiple of ", unit, " x model_parallel_size = ", multiple);
  }
  return absl::OkStatus();
}

}  // namespace oneflow::foreign
