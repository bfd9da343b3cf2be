#include "oneflow_core/model/gpt.h"

#include <cmath>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_builder.h"

namespace oneflow {
namespace {

using Value = GraphBuilder::Value;

// Those of gpt2-124m.
constexpr std::string_view kGptDefaults =
    "layers: 12 heads: 12 hidden: 768 sequence: 1024 vocab: 50257 bias: true tied: true dropout: 0 "
    "attention: 'fused' masks: 'recomputed' norm_epsilon: 1e-5";

std::vector<Preset> GptPresets() {
  return {{"tiny", "layers: 2 heads: 2 hidden: 32 sequence: 16 vocab: 256"},
          {"small", "layers: 4 heads: 4 hidden: 128 sequence: 64 vocab: 256"},
          {"gpt2-124m", ""},
          {"gpt2-350m", "layers: 24 heads: 16 hidden: 1024"},
          {"gpt2-774m", "layers: 36 heads: 20 hidden: 1280"},
          {"gpt2-1.5b", "layers: 48 heads: 25 hidden: 1600"},
          // The first of its series: "gpt3" is short for it.
          {"gpt3-175b", "layers: 96 heads: 96 hidden: 12288 sequence: 2048 vocab: 51200"},
          {"gpt3-125m", "layers: 12 heads: 12 hidden: 768 sequence: 2048 vocab: 51200"},
          {"gpt3-350m", "layers: 24 heads: 16 hidden: 1024 sequence: 2048 vocab: 51200"},
          {"gpt3-760m", "layers: 24 heads: 16 hidden: 1536 sequence: 2048 vocab: 51200"},
          {"gpt3-1.3b", "layers: 24 heads: 16 hidden: 2048 sequence: 2048 vocab: 51200"},
          {"gpt3-2.7b", "layers: 32 heads: 32 hidden: 2560 sequence: 2048 vocab: 51200"},
          {"gpt3-6.7b", "layers: 32 heads: 32 hidden: 4096 sequence: 2048 vocab: 51200"},
          {"gpt3-13b", "layers: 40 heads: 40 hidden: 5120 sequence: 2048 vocab: 51200"}};
}

// The parts of one model. Each method adds ops whose names begin with `at`.
class Gpt {
 public:
  Gpt(const proto::Model& model, const std::string& name) : model_(model), g_(name) {
    g_.Family("gpt");
  }

  proto::Graph Build() {
    const NamedDims batch = {{"batch", 0}, {"seq", model_.sequence()}};
    const Value tokens = g_.Input("tokens", batch, "tokens", DType::kI32);
    const Value labels = g_.Input("labels", batch, "labels", DType::kI32);
    const Value wte = g_.Variable("wte", {Vocab(), Hidden()}, Normal(kDeviation));
    const Value wpe =
        g_.Variable("wpe", {{"seq", model_.sequence()}, Hidden()}, Normal(kDeviation));

    Value x = g_.PositionalEmbedding("embed", g_.Embedding("embed.tokens", wte, tokens), wpe);
    x = Dropout("embed.drop", x);
    for (int64_t i = 0; i < model_.layers(); ++i) {
      g_.Block(static_cast<int>(i));
      x = Block("h." + std::to_string(i), x);
    }
    g_.Block(-1);
    x = LayerNorm("ln_f", x);
    const Value head =
        model_.tied() ? wte : g_.Variable("head.weight", {Vocab(), Hidden()}, Normal(kDeviation));
    const Value logits = g_.Linear("logits", x, head, {}, {.transpose_w = true});
    g_.Loss(g_.SoftmaxCrossEntropy("loss", logits, labels));
    g_.Output(logits);
    return g_.proto();
  }

 private:
  NamedDim Vocab() const { return {"vocab", model_.vocab()}; }
  NamedDim Hidden() const { return {"hidden", model_.hidden()}; }
  NamedDim Inner() const { return {"inner", 4 * model_.hidden()}; }
  NamedDim Heads() const { return {"heads", model_.heads()}; }
  NamedDim HeadDim() const { return {"head_dim", model_.hidden() / model_.heads()}; }
  // Projections back onto the residual stream: it adds 2 * layers of them.
  Init Residual() const { return Normal(kDeviation / std::sqrt(2.0 * model_.layers())); }

  // Said outright, because the query, key and value biases have more than one dimension.
  Value Bias(const std::string& at, NamedDims dims) {
    return model_.bias() ? g_.Variable(at + ".bias", std::move(dims), NoDecay(Zeros())) : Value{};
  }

  Value LayerNorm(const std::string& at, Value x) {
    const Value gamma = g_.Variable(at + ".weight", {Hidden()}, Ones());
    return g_.LayerNorm(at, x, gamma, Bias(at, {Hidden()}), model_.norm_epsilon());
  }

  Value Linear(const std::string& at, Value x, NamedDims in, NamedDims out, Init init) {
    NamedDims dims = in;
    dims.insert(dims.end(), out.begin(), out.end());
    const Value w = g_.Variable(at + ".weight", dims, init);
    return g_.Linear(at, x, w, Bias(at, out), {.contract = static_cast<int>(in.size())});
  }

  Value Dropout(const std::string& at, Value x) {
    if (model_.dropout() == 0) return x;
    return model_.masks() == "stored" ? g_.StoredDropout(at, x, model_.dropout())
                                      : g_.Dropout(at, x, model_.dropout());
  }

  Value Block(const std::string& at, Value x) {
    x = g_.Add(at + ".attn.add", x, Attention(at + ".attn", LayerNorm(at + ".ln_1", x)));
    return g_.Add(at + ".mlp.add", x, Mlp(at + ".mlp", LayerNorm(at + ".ln_2", x)));
  }

  Value Attention(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    const NamedDims qkv = {NamedDim(3), Heads(), HeadDim()};
    x = Linear(at + ".qkv", x, {Hidden()}, qkv, Normal(kDeviation));  // [b,t,3,heads,d]
    x = model_.attention() == "fused" ? g_.CausalAttention(at + ".core", x)
                                      : UnfusedAttention(at + ".core", x);  // [b,t,heads,d]
    x = Linear(at + ".proj", x, {Heads(), HeadDim()}, {Hidden()}, Residual());
    return Dropout(at + ".drop", x);
  }

  Value UnfusedAttention(const std::string& at, Value qkv) {
    const double head_dim = static_cast<double>(model_.hidden() / model_.heads());
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

  const proto::Model& model_;
  GraphBuilder g_;
};

absl::Status FinishGpt(const proto::Model& /*said*/, proto::Model* model) {
  if (model->hidden() % model->heads() == 0) return absl::OkStatus();
  return InputError("--heads=" + std::to_string(model->heads()),
                    "does not divide --hidden=" + std::to_string(model->hidden()),
                    "each head takes an equal part of the hidden size");
}

proto::Graph BuildGpt(const proto::Model& model, const std::string& name) {
  return Gpt(model, name).Build();
}

}  // namespace

Family GptFamily() {
  return {.name = "gpt",
          .models = "GPT-2 and GPT-3",
          .defaults = std::string(kGptDefaults),
          .presets = GptPresets(),
          .finish = FinishGpt,
          .build = BuildGpt,
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

}  // namespace oneflow
