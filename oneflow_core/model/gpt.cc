#include "oneflow_core/model/gpt.h"

#include <cmath>
#include <sstream>

#include <glog/logging.h>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_builder.h"

namespace oneflow {
namespace {

using Value = GraphBuilder::Value;

struct Preset {
  const char* name;
  int64_t layers, heads, hidden, sequence, vocab;
};

constexpr Preset kPresets[] = {
    {"tiny", 2, 2, 32, 16, 256},
    {"small", 4, 4, 128, 64, 256},
    {"gpt2-124m", 12, 12, 768, 1024, 50257},
    {"gpt2-350m", 24, 16, 1024, 1024, 50257},
    {"gpt2-774m", 36, 20, 1280, 1024, 50257},
    {"gpt2-1.5b", 48, 25, 1600, 1024, 50257},
    {"gpt3-175b", 96, 96, 12288, 2048, 51200},
};

// The parts of one model. Each method adds ops whose names begin with `at`.
class Gpt {
 public:
  explicit Gpt(const GptConfig& config) : config_(config), g_(config.name) { g_.Family("gpt"); }

  proto::Graph Build() {
    const NamedDims batch = {{"batch", 0}, {"seq", config_.sequence}};
    const Value tokens = g_.Input("tokens", batch, "tokens", DType::kI32);
    const Value labels = g_.Input("labels", batch, "labels", DType::kI32);
    const Value wte = g_.Variable("wte", {Vocab(), Hidden()}, Normal(kDeviation));
    const Value wpe = g_.Variable("wpe", {{"seq", config_.sequence}, Hidden()}, Normal(kDeviation));

    Value x = g_.PositionalEmbedding("embed", g_.Embedding("embed.tokens", wte, tokens), wpe);
    x = Dropout("embed.drop", x);
    for (int64_t i = 0; i < config_.layers; ++i) {
      g_.Block(static_cast<int>(i));
      x = Block("h." + std::to_string(i), x);
    }
    g_.Block(-1);
    x = LayerNorm("ln_f", x);
    const Value head =
        config_.tied ? wte : g_.Variable("head.weight", {Vocab(), Hidden()}, Normal(kDeviation));
    const Value logits = g_.Linear("logits", x, head, {}, {.transpose_w = true});
    g_.Loss(g_.SoftmaxCrossEntropy("loss", logits, labels));
    g_.Output(logits);
    return g_.proto();
  }

 private:
  NamedDim Vocab() const { return {"vocab", config_.vocab}; }
  NamedDim Hidden() const { return {"hidden", config_.hidden}; }
  NamedDim Inner() const { return {"inner", 4 * config_.hidden}; }
  NamedDim Heads() const { return {"heads", config_.heads}; }
  NamedDim HeadDim() const { return {"head_dim", config_.hidden / config_.heads}; }
  // Projections back onto the residual stream: it adds 2 * layers of them.
  Init Residual() const { return Normal(kDeviation / std::sqrt(2.0 * config_.layers)); }

  // Said outright, because the query, key and value biases have more than one dimension.
  Value Bias(const std::string& at, NamedDims dims) {
    return config_.bias ? g_.Variable(at + ".bias", std::move(dims), NoDecay(Zeros())) : Value{};
  }

  Value LayerNorm(const std::string& at, Value x) {
    const Value gamma = g_.Variable(at + ".weight", {Hidden()}, Ones());
    return g_.LayerNorm(at, x, gamma, Bias(at, {Hidden()}), config_.epsilon);
  }

  Value Linear(const std::string& at, Value x, NamedDims in, NamedDims out, Init init) {
    NamedDims dims = in;
    dims.insert(dims.end(), out.begin(), out.end());
    const Value w = g_.Variable(at + ".weight", dims, init);
    return g_.Linear(at, x, w, Bias(at, out), {.contract = static_cast<int>(in.size())});
  }

  Value Dropout(const std::string& at, Value x) {
    if (config_.dropout == 0) return x;
    return config_.stored_masks ? g_.StoredDropout(at, x, config_.dropout)
                                : g_.Dropout(at, x, config_.dropout);
  }

  Value Block(const std::string& at, Value x) {
    x = g_.Add(at + ".attn.add", x, Attention(at + ".attn", LayerNorm(at + ".ln_1", x)));
    return g_.Add(at + ".mlp.add", x, Mlp(at + ".mlp", LayerNorm(at + ".ln_2", x)));
  }

  Value Attention(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    const NamedDims qkv = {NamedDim(3), Heads(), HeadDim()};
    x = Linear(at + ".qkv", x, {Hidden()}, qkv, Normal(kDeviation));  // [b,t,3,heads,d]
    x = config_.fused_attention ? g_.CausalAttention(at + ".core", x)
                                : UnfusedAttention(at + ".core", x);  // [b,t,heads,d]
    x = Linear(at + ".proj", x, {Heads(), HeadDim()}, {Hidden()}, Residual());
    return Dropout(at + ".drop", x);
  }

  Value UnfusedAttention(const std::string& at, Value qkv) {
    const double head_dim = static_cast<double>(config_.hidden / config_.heads);
    const Value q = g_.SplitHeads(at + ".split", qkv);  // this and the two others [b,heads,t,d]
    Value p = g_.BatchMatmul(at + ".scores", q, q.output(1), false, true);  // [b,heads,t,t]
    p = g_.CausalSoftmax(at + ".softmax", p, 1 / std::sqrt(head_dim));
    p = Dropout(at + ".drop", p);
    return g_.SwapDims(at, g_.BatchMatmul(at + ".values", p, q.output(2)));
  }

  Value Mlp(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    x = Linear(at + ".fc", x, {Hidden()}, {Inner()}, Normal(kDeviation));
    x = g_.Gelu(at + ".gelu", x);
    x = Linear(at + ".proj", x, {Inner()}, {Hidden()}, Residual());
    return Dropout(at + ".drop", x);
  }

  const GptConfig& config_;
  GraphBuilder g_;
};

}  // namespace

Family GptFamily() {
  return {.name = "gpt",
          .models = "GPT-2 and GPT-3",
          .presets = GptPresets(),
          .known_by = {"wte", "wpe"},
          .splits = {{"wte", S(0)},
                     {"head.weight", S(0)},
                     {"h.*.attn.qkv.weight", S(2)},
                     {"h.*.attn.qkv.bias", S(1)},
                     {"h.*.attn.proj.weight", S(0)},
                     {"h.*.mlp.fc.weight", S(1)},
                     {"h.*.mlp.fc.bias", S(0)},
                     {"h.*.mlp.proj.weight", S(0)}},
          .files = &GptFiles()};
}

std::vector<std::string> GptPresets() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

absl::StatusOr<GptConfig> GptPreset(std::string_view name) {
  for (const Preset& p : kPresets) {
    if (name == p.name) return GptConfig{p.name, p.layers, p.heads, p.hidden, p.sequence, p.vocab};
  }
  return UnknownPreset(name, GptPresets());
}

absl::Status CheckGptConfig(const GptConfig& config) {
  struct Number {
    const char* flag;
    int64_t value, largest;
  };
  const Number numbers[] = {{"layers", config.layers, 10000},
                            {"heads", config.heads, 10000},
                            {"hidden", config.hidden, 1 << 20},
                            {"sequence", config.sequence, 1 << 24},
                            {"vocab", config.vocab, 1 << 28}};
  for (const Number& n : numbers) {
    if (n.value >= 1 && n.value <= n.largest) continue;
    return InputError(std::string("--") + n.flag + '=' + std::to_string(n.value), "is out of range",
                      "use 1 to " + std::to_string(n.largest));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    std::ostringstream flag;
    flag << "--dropout=" << config.dropout;
    return InputError(flag.str(), "is no rate", "use 0 or more and less than 1");
  }
  if (config.hidden % config.heads != 0) {
    return InputError("--heads=" + std::to_string(config.heads),
                      "does not divide --hidden=" + std::to_string(config.hidden),
                      "each head takes an equal part of the hidden size");
  }
  return absl::OkStatus();
}

proto::Graph BuildGpt(const GptConfig& config) {
  const absl::Status status = CheckGptConfig(config);
  CHECK(status.ok()) << status;
  return Gpt(config).Build();
}

int64_t ParameterCount(const GptConfig& config) {
  const int64_t h = config.hidden;
  const int64_t layer_norm = config.bias ? 2 * h : h;
  const int64_t weights = 3 * h * h + h * h + 4 * h * h + 4 * h * h;
  const int64_t biases = config.bias ? 3 * h + h + 4 * h + h : 0;
  const int64_t embeddings = config.vocab * h * (config.tied ? 1 : 2) + config.sequence * h;
  return config.layers * (weights + biases + 2 * layer_norm) + layer_norm + embeddings;
}

}  // namespace oneflow
