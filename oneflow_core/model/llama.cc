#include "oneflow_core/model/llama.h"

#include <cmath>
#include <sstream>

#include <glog/logging.h>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Value = GraphBuilder::Value;

constexpr char kSoftmax[] = "softmax";

// The parts of one model. Each method adds ops whose names begin with `at`.
class Llama {
 public:
  explicit Llama(const LlamaConfig& config) : config_(config), g_(config.name) {
    g_.Family("llama");
  }

  proto::Graph Build() {
    const NamedDims batch = {{"batch", 0}, {"seq", config_.sequence}};
    const Value tokens = g_.Input("tokens", batch, "tokens", DType::kI32);
    const Value labels = g_.Input("labels", batch, "labels", DType::kI32);
    const Value wte = g_.Variable("wte", {Vocab(), Hidden()}, Normal(kDeviation));

    Value x = g_.Embedding("embed", wte, tokens);
    for (int64_t i = 0; i < config_.layers; ++i) {
      g_.Block(static_cast<int>(i));
      x = Block("h." + std::to_string(i), x);
    }
    g_.Block(-1);
    x = Norm("norm_f", x, Hidden());
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
  NamedDim Inner() const { return {"inner", config_.inner}; }
  NamedDim Groups() const { return {"groups", config_.groups}; }
  NamedDim QueryHeads() const { return {"heads", config_.heads / config_.groups}; }
  NamedDim HeadDim() const { return {"head_dim", config_.head_dim}; }
  // Projections back onto the residual stream: it adds 2 * layers of them.
  Init Residual() const { return Normal(kDeviation / std::sqrt(2.0 * config_.layers)); }

  Value Norm(const std::string& at, Value x, NamedDim dim) {
    return g_.RmsNorm(at, x, g_.Variable(at + ".weight", {dim}, Ones()), config_.epsilon);
  }

  Value Linear(const std::string& at, Value x, NamedDims in, NamedDims out, Init init,
               bool biased = false) {
    NamedDims dims = in;
    dims.insert(dims.end(), out.begin(), out.end());
    const Value w = g_.Variable(at + ".weight", dims, init);
    // Said outright, because the bias may have more than one dimension.
    const Value bias =
        biased ? g_.Variable(at + ".bias", std::move(out), NoDecay(Zeros())) : Value{};
    return g_.Linear(at, x, w, bias, {.contract = static_cast<int>(in.size())});
  }

  Value Block(const std::string& at, Value x) {
    x = g_.Add(at + ".attn.add", x, Attention(at + ".attn", Norm(at + ".norm_1", x, Hidden())));
    return g_.Add(at + ".mlp.add", x, Mlp(at + ".mlp", Norm(at + ".norm_2", x, Hidden())));
  }

  Value Attention(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    const NamedDims qkv = {Groups(), NamedDim(config_.heads / config_.groups + 2), HeadDim()};
    x = Linear(at + ".qkv", x, {Hidden()}, qkv, Normal(kDeviation),
               config_.qkv_bias);  // [b,t,g,r+2,d]
    x = g_.SplitQkv(at + ".split", x, /*parts_first=*/false);
    const Value q = Positioned(at + ".q", x);            // [b,t,g,r,d]
    const Value k = Positioned(at + ".k", x.output(1));  // [b,t,g,d]
    x = g_.Attention(at + ".core", q, k, x.output(2), config_.window);
    return Linear(at + ".proj", x, {Groups(), QueryHeads(), HeadDim()}, {Hidden()}, Residual());
  }

  Value Positioned(const std::string& at, Value x) {
    if (config_.qk_norm) x = Norm(at + "_norm", x, HeadDim());
    return g_.Rotary(at + "_rotary", x, {.theta = config_.theta, .scaling = config_.scaling});
  }

  Value Mlp(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    if (config_.experts == 0) return Dense(at, x, config_.inner);
    const Value chosen = Experts(at, x);
    if (config_.shared == 0) return chosen;
    return g_.Add(at + ".sum", Dense(at + ".shared", x, config_.shared), chosen);
  }

  Value Dense(const std::string& at, Value x, int64_t width) {
    const NamedDim inner("inner", width);
    const Value gate = Linear(at + ".gate", x, {Hidden()}, {inner}, Normal(kDeviation));
    const Value up = Linear(at + ".up", x, {Hidden()}, {inner}, Normal(kDeviation));
    x = g_.Gated(at + ".act", gate, up, "silu");
    return Linear(at + ".proj", x, {inner}, {Hidden()}, Residual());
  }

  Value Experts(const std::string& at, Value x) {
    const NamedDim experts("experts", config_.experts);
    const Value router =
        g_.Variable(at + ".router.weight", {Hidden(), experts}, Normal(kDeviation));
    const Value logits = g_.Linear(at + ".router", x, router, {}, {.wide = true});
    AttrMap queues;
    if (config_.run > 0) queues["run"] = config_.run;
    if (config_.capacity > 0) {
      queues["capacity"] = config_.capacity;
      queues["groups"] = config_.experts;
    }
    AttrMap route = queues;
    route["choices"] = config_.choices;
    route["normalized"] = config_.normalized;
    if (config_.scores != kSoftmax) route["scores"] = config_.scores;
    std::vector<Value> read = {logits};
    if (config_.bias_rate > 0) {
      route["bias_rate"] = config_.bias_rate;
      read.push_back(g_.Variable(at + ".router.bias", {experts}, NoDecay(Zeros())));
    }
    if (config_.balance > 0) route["balance"] = config_.balance;
    if (config_.z > 0) route["z"] = config_.z;
    const Value w = g_.Op("route", at + ".route", read, route);
    const Value ids = w.output(1), slots = w.output(2), offsets = w.output(3);
    queues["experts"] = config_.experts;
    const int64_t taken = config_.choices * (config_.run > 0 ? config_.run : config_.sequence);
    const auto product = [&](const std::string& name, Value y, NamedDim in, NamedDim out,
                             Init init) {
      const Value weight =
          g_.Variable(at + ".experts." + name + ".weight", {experts, in, out}, init);
      return g_.Op("expert_linear", at + ".experts." + name, {y, weight, offsets},
                   {{"taken", taken}});
    };
    x = g_.Op("dispatch", at + ".dispatch", {x, ids, slots}, queues);  // [G,b,r,C,H]
    const Value gate = product("gate", x, Hidden(), Inner(), Normal(kDeviation));
    const Value up = product("up", x, Hidden(), Inner(), Normal(kDeviation));
    x = g_.Gated(at + ".experts.act", gate, up, "silu");
    x = product("proj", x, Inner(), Hidden(), Residual());
    return g_.Op("combine", at + ".combine", {x, ids, slots, w}, queues);
  }

  const LlamaConfig& config_;
  GraphBuilder g_;
};

std::string NumberText(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

absl::Status CheckExperts(const LlamaConfig& config) {
  if (config.experts == 0) return absl::OkStatus();
  if (config.choices < 1 || config.choices > config.experts) {
    return InputError("--choices=" + std::to_string(config.choices),
                      "is out of range: there are " + std::to_string(config.experts) + " experts",
                      "use 1 to " + std::to_string(config.experts));
  }
  if (config.run > 0 && config.sequence % config.run != 0) {
    return InputError("--run=" + std::to_string(config.run),
                      "does not divide --sequence=" + std::to_string(config.sequence),
                      "use a divisor, or leave it out: a sequence is a run then");
  }
  for (const auto& [flag, factor] :
       {std::pair("balance", config.balance), std::pair("z", config.z)}) {
    if (factor >= 0 && factor <= 1000) continue;
    return InputError(std::string("--") + flag + '=' + NumberText(factor), "is out of range",
                      "use a small number, as 0.01, or 0 for none");
  }
  if (config.scores != kSoftmax && config.scores != "sigmoid") {
    return InputError("--scores=" + config.scores, "is not known", "use softmax or sigmoid");
  }
  if (!(config.bias_rate >= 0 && config.bias_rate <= 1)) {
    return InputError("--bias_rate=" + NumberText(config.bias_rate), "is out of range",
                      "use a small number, as 0.001, or 0 for no bias");
  }
  if (!(config.capacity >= 0 && config.capacity <= static_cast<double>(config.experts))) {
    return InputError("--capacity=" + NumberText(config.capacity), "is out of range",
                      "use slots relative to even routing, as 1.25, or 0 to drop nothing");
  }
  return absl::OkStatus();
}

}  // namespace

Family LlamaFamily() {
  return {.name = "llama",
          .models = "Llama, Mistral, Mixtral and Qwen",
          .presets = LlamaPresets(),
          .known_by = {"wte", "norm_f.weight"},
          .splits = {{"wte", S(0)},
                     {"head.weight", S(0)},
                     {"h.*.attn.qkv.weight", S(1), B()},
                     {"h.*.attn.qkv.bias", S(0), B()},
                     {"h.*.attn.proj.weight", S(0), S(1)},
                     {"h.*.mlp.gate.weight", S(1)},
                     {"h.*.mlp.up.weight", S(1)},
                     {"h.*.mlp.proj.weight", S(0)},
                     {"h.*.mlp.shared.gate.weight", S(1)},
                     {"h.*.mlp.shared.up.weight", S(1)},
                     {"h.*.mlp.shared.proj.weight", S(0)},
                     {.variable = "h.*.mlp.experts.gate.weight", .sbp = S(2), .by_expert = S(0)},
                     {.variable = "h.*.mlp.experts.up.weight", .sbp = S(2), .by_expert = S(0)},
                     {.variable = "h.*.mlp.experts.proj.weight", .sbp = S(1), .by_expert = S(0)}},
          .files = &LlamaFiles()};
}

int64_t UsualInner(int64_t hidden) { return (hidden * 8 / 3 + 63) / 64 * 64; }

absl::Status CheckLlamaConfig(const LlamaConfig& config) {
  struct Number {
    const char* flag;
    int64_t value, least, largest;
  };
  const Number numbers[] = {
      {"layers", config.layers, 1, 10000},       {"heads", config.heads, 1, 10000},
      {"groups", config.groups, 1, 10000},       {"head_dim", config.head_dim, 1, 1 << 16},
      {"hidden", config.hidden, 1, 1 << 20},     {"inner", config.inner, 1, 1 << 22},
      {"sequence", config.sequence, 1, 1 << 24}, {"vocab", config.vocab, 1, 1 << 28},
      {"window", config.window, 0, 1 << 24},     {"experts", config.experts, 0, 1 << 12},
      {"shared", config.shared, 0, 1 << 22},     {"run", config.run, 0, 1 << 24}};
  for (const Number& n : numbers) {
    if (n.value >= n.least && n.value <= n.largest) continue;
    return InputError(std::string("--") + n.flag + '=' + std::to_string(n.value), "is out of range",
                      "use " + std::to_string(n.least) + " to " + std::to_string(n.largest));
  }
  if (!(config.theta > 1 && std::isfinite(config.theta))) {
    return InputError("--theta=" + NumberText(config.theta), "is no base of rotary frequencies",
                      "use a number above 1: 10000, 500000, ...");
  }
  if (!(config.epsilon > 0 && config.epsilon < 1)) {
    return InputError("--norm_epsilon=" + NumberText(config.epsilon), "is out of range",
                      "use a number above 0 and below 1: 1e-5, 1e-6, ...");
  }
  RETURN_IF_ERROR(CheckExperts(config));
  if (config.heads % config.groups != 0) {
    return InputError("--groups=" + std::to_string(config.groups),
                      "does not divide --heads=" + std::to_string(config.heads),
                      "each group has an equal part of the query heads");
  }
  if (config.head_dim % 2 != 0) {
    return InputError("--head_dim=" + std::to_string(config.head_dim), "is odd",
                      "use an even number: rotary positions turn pairs of elements");
  }
  return absl::OkStatus();
}

proto::Graph BuildLlama(const LlamaConfig& config) {
  const absl::Status status = CheckLlamaConfig(config);
  CHECK(status.ok()) << status;
  return Llama(config).Build();
}

int64_t ParameterCount(const LlamaConfig& config) {
  const int64_t qkv = (config.heads + 2 * config.groups) * config.head_dim;
  const int64_t mlps =
      config.experts > 0 ? config.experts * config.inner + config.shared : config.inner;
  const int64_t weights = config.hidden * qkv + config.heads * config.head_dim * config.hidden +
                          config.experts * config.hidden + 3 * config.hidden * mlps;
  const int64_t biases = (config.qkv_bias ? qkv : 0) + (config.bias_rate > 0 ? config.experts : 0);
  const int64_t norms = 2 * config.hidden + (config.qk_norm ? 2 * config.head_dim : 0);
  const int64_t embeddings = config.vocab * config.hidden * (config.tied ? 1 : 2);
  return config.layers * (weights + biases + norms) + config.hidden + embeddings;
}

int64_t ActiveParameterCount(const LlamaConfig& config) {
  const int64_t others = config.experts > 0 ? config.experts - config.choices : 0;
  return ParameterCount(config) - config.layers * others * 3 * config.hidden * config.inner;
}

}  // namespace oneflow
