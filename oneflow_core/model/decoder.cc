#include "oneflow_core/model/decoder.h"

#include <cmath>
#include <optional>

#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/model/block_numbers.h"

namespace oneflow {
namespace {

using Value = GraphBuilder::Value;

constexpr char kSoftmax[] = "softmax", kBefore[] = "before", kAfter[] = "after";

// The parts of one model. Each method adds ops whose names begin with `at`. While a block is built,
// `model_` has the numbers of its class.
class Decoder {
 public:
  Decoder(const proto::Model& model, const std::string& name) : model_(model), g_(name) {
    g_.Family(model.family());
  }

  proto::Graph Build() {
    const NamedDims batch = {{"batch", 0}, {"seq", model_.sequence()}};
    const Value tokens = g_.Input("tokens", batch, "tokens", DType::kI32);
    const Value labels = g_.Input("labels", batch, "labels", DType::kI32);
    const Value wte = g_.Variable("wte", {Vocab(), Hidden()}, Normal(kDeviation));

    Value x = g_.Embedding("embed", wte, tokens, model_.embedding_scale());
    const proto::Model all = model_;
    for (int64_t i = 0; i < all.layers(); ++i) {
      g_.Block(static_cast<int>(i));
      model_ = BlockNumbers(all, i);
      x = Block("h." + std::to_string(i), x);
    }
    g_.Block(-1);
    model_ = all;
    x = Norm("norm_f", x, Hidden());
    const Value head =
        model_.tied() ? wte : g_.Variable("head.weight", {Vocab(), Hidden()}, Normal(kDeviation));
    const Value logits = Logits("logits", x, head);
    const Value loss = g_.SoftmaxCrossEntropy("loss", logits, labels);
    if (model_.next_tokens() == 0) {
      g_.Loss(loss);
    } else {
      const Value next = NextTokenLoss("mtp", x, wte, head);
      g_.Loss(g_.Op("add_n", "loss.all", {loss, next}));
    }
    g_.Output(logits);
    return g_.proto();
  }

 private:
  NamedDim Vocab() const { return {"vocab", model_.vocab()}; }
  NamedDim Hidden() const { return {"hidden", model_.hidden()}; }
  NamedDim Inner() const { return {"inner", model_.inner()}; }
  NamedDim Groups() const { return {"groups", model_.groups()}; }
  NamedDim QueryHeads() const { return {"heads", model_.heads() / model_.groups()}; }
  NamedDim HeadDim() const { return {"head_dim", model_.head_dim()}; }
  // Projections back onto the residual stream: it adds 2 * layers of them.
  Init Residual() const { return Normal(kDeviation / std::sqrt(2.0 * model_.layers())); }

  Value Norm(const std::string& at, Value x, NamedDim dim) {
    const double offset = model_.norm_offset();
    const Init init = offset == 0 ? Ones() : offset == 1 ? Zeros() : Constant(1 - offset);
    const Value gamma = g_.Variable(at + ".weight", {dim}, init);
    return g_.RmsNorm(at, x, gamma, model_.norm_epsilon(), offset);
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
    const bool before = model_.norms() != kAfter, after = model_.norms() != kBefore;
    const auto read = [&](const char* norm) { return before ? Norm(at + norm, x, Hidden()) : x; };
    const auto added = [&](const std::string& branch, Value y) {
      return g_.Add(branch + ".add", x, after ? Norm(branch + ".norm", y, Hidden()) : y);
    };
    x = added(at + ".attn", Attention(at + ".attn", read(".norm_1")));
    return added(at + ".mlp", Mlp(at + ".mlp", read(".norm_2")));
  }

  Value Attention(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    const NamedDims qkv = {Groups(), NamedDim(model_.heads() / model_.groups() + 2), HeadDim()};
    x = Linear(at + ".qkv", x, {Hidden()}, qkv, Normal(kDeviation),
               model_.qkv_bias());  // [b,t,g,r+2,d]
    x = g_.SplitQkv(at + ".split", x, /*parts_first=*/false);
    const Value q = Positioned(at + ".q", x, {Groups(), QueryHeads(), HeadDim()});  // [b,t,g,r,d]
    const Value k = Positioned(at + ".k", x.output(1), {Groups(), HeadDim()});      // [b,t,g,d]
    Value sinks;
    if (model_.sinks()) {
      sinks = g_.Variable(at + ".sinks", {Groups(), QueryHeads()}, NoDecay(Normal(kDeviation)));
    }
    x = g_.Attention(at + ".core", q, k, x.output(2),
                     {.window = model_.window(),
                      .scale = model_.attention_scale(),
                      .soft_cap = model_.attention_cap(),
                      .sinks = sinks});
    return Linear(at + ".proj", x, {Groups(), QueryHeads(), HeadDim()}, {Hidden()}, Residual(),
                  model_.proj_bias());
  }

  Value Positioned(const std::string& at, Value x, const NamedDims& heads) {
    if (model_.qk_norm() && model_.norm_all_heads()) {
      Dims sizes;
      for (const NamedDim& dim : heads) sizes.push_back(dim.size);
      const Value gamma = g_.Variable(at + "_norm_all.weight", heads, NoDecay(Ones()));
      x = g_.RmsNormOver(at + "_norm_all", x, gamma, sizes, model_.norm_epsilon());
    } else if (model_.qk_norm()) {
      x = Norm(at + "_norm", x, HeadDim());
    }
    if (model_.rotary_share() == 0) return x;
    return g_.Rotary(at + "_rotary", x, DecoderRotary(model_));
  }

  Value Logits(const std::string& at, Value x, Value head) {
    const double cap = model_.logit_cap();
    x = g_.Linear(at + (cap > 0 ? ".product" : ""), x, head, {}, {.transpose_w = true});
    return cap > 0 ? g_.SoftCap(at, x, cap) : x;
  }

  // Multi-token prediction (DeepSeek-AI 2024, DeepSeek-V3, section 2.2): from the stream behind
  // norm_f and the embedding of the next token, a further block predicts the label after that.
  // Embedding and head are the model's. The last position has no such label.
  Value NextTokenLoss(const std::string& at, Value x, Value wte, Value head) {
    model_ = BlockNumbers(model_, model_.layers() - 1);
    const NamedDims batch = {{"batch", 0}, {"seq", model_.sequence()}};
    const Value token = g_.Input("next_tokens", batch, "next_tokens", DType::kI32);
    const Value next = g_.Input("next_labels", batch, "next_labels", DType::kI32);
    Value e = g_.Embedding(at + ".embed", wte, token, model_.embedding_scale());
    e = Linear(at + ".of_label", Norm(at + ".norm_label", e, Hidden()), {Hidden()}, {Hidden()},
               Normal(kDeviation));
    x = Linear(at + ".of_stream", Norm(at + ".norm_stream", x, Hidden()), {Hidden()}, {Hidden()},
               Normal(kDeviation));
    x = Norm(at + ".norm_f", Block(at, g_.Add(at + ".add", x, e)), Hidden());
    x = Logits(at + ".logits", x, head);
    return g_.Op("softmax_cross_entropy", at + ".loss", {x, next},
                 {{"factor", model_.next_tokens_coeff()},
                  {"unlabelled", int64_t{1}},
                  {"gradient_only", true}});
  }

  Value Mlp(const std::string& at, Value x) {  // [b,t,H] -> [b,t,H]
    if (model_.experts() == 0) return Dense(at, x, model_.inner());
    const Value chosen = Experts(at, x);
    if (model_.shared_inner() == 0) return chosen;
    return g_.Add(at + ".sum", Dense(at + ".shared", x, model_.shared_inner()), chosen);
  }

  Value Dense(const std::string& at, Value x, int64_t width) {
    const NamedDim inner("inner", width);
    const Value gate = Linear(at + ".gate", x, {Hidden()}, {inner}, Normal(kDeviation));
    const Value up = Linear(at + ".up", x, {Hidden()}, {inner}, Normal(kDeviation));
    x = g_.Gated(at + ".act", gate, up, model_.activation());
    return Linear(at + ".proj", x, {inner}, {Hidden()}, Residual());
  }

  Value Experts(const std::string& at, Value x) {
    const NamedDim experts("experts", model_.experts());
    const Value router =
        g_.Variable(at + ".router.weight", {Hidden(), experts}, Normal(kDeviation));
    Value offset;
    if (model_.router_bias()) {
      offset = g_.Variable(at + ".router.offset", {experts}, NoDecay(Zeros()));
    }
    const Value logits = g_.Linear(at + ".router", x, router, offset, {.wide = true});
    AttrMap queues;
    if (model_.routed_positions() > 0) queues["run"] = model_.routed_positions();
    if (model_.slots() > 0) {
      queues["capacity"] = model_.slots();
      queues["groups"] = model_.slot_groups();
    }
    AttrMap route = queues;
    route["choices"] = model_.experts_per_token();
    route["normalized"] = model_.norm_topk_prob();
    if (model_.scores() != kSoftmax) route["scores"] = model_.scores();
    if (model_.routed_scale() != 1) route["scale"] = model_.routed_scale();
    std::vector<Value> read = {logits};
    if (model_.bias_rate() > 0) {
      route["bias_rate"] = model_.bias_rate();
      read.push_back(g_.Variable(at + ".router.bias", {experts}, NoDecay(Zeros())));
    }
    if (model_.aux_loss_coeff() > 0) route["balance"] = model_.aux_loss_coeff();
    if (model_.z_loss_coeff() > 0) route["z"] = model_.z_loss_coeff();
    const Value w = g_.Op("route", at + ".route", read, route);
    const Value ids = w.output(1), slots = w.output(2), offsets = w.output(3);
    queues["experts"] = model_.experts();
    const int64_t taken =
        model_.experts_per_token() *
        (model_.routed_positions() > 0 ? model_.routed_positions() : model_.sequence());
    const auto product = [&](const std::string& name, Value y, NamedDim in, NamedDim out,
                             Init init) {
      const Value weight =
          g_.Variable(at + ".experts." + name + ".weight", {experts, in, out}, init);
      Value bias;
      if (model_.expert_bias()) {
        bias = g_.Variable(at + ".experts." + name + ".bias", {experts, out}, NoDecay(Zeros()));
      }
      return g_.Op("expert_linear", at + ".experts." + name, {y, weight, offsets, bias},
                   {{"taken", taken}});
    };
    x = g_.Op("dispatch", at + ".dispatch", {x, ids, slots}, queues);  // [G,b,r,C,H]
    const Value gate = product("gate", x, Hidden(), Inner(), Normal(kDeviation));
    const Value up = product("up", x, Hidden(), Inner(), Normal(kDeviation));
    x = g_.Gated(at + ".experts.act", gate, up, model_.activation());
    x = product("proj", x, Inner(), Hidden(), Residual());
    return g_.Op("combine", at + ".combine", {x, ids, slots, w}, queues);
  }

  proto::Model model_;
  GraphBuilder g_;
};

}  // namespace

RotaryOptions DecoderRotary(const proto::Model& numbers) {
  RotaryOptions options{.theta = numbers.theta()};
  if (numbers.rotary_share() < 1) options.rotated = RotatedElements(numbers);
  const proto::RopeScaling& s = numbers.rope_scaling();
  if (s.factor() == 0) return options;
  using Scaling = RotaryOptions::Scaling;
  Scaling& scaling = options.scaling.emplace(
      Scaling{.factor = s.factor(), .low = s.low(), .high = s.high(), .positions = s.positions()});
  if (s.kind() == proto::RopeScaling::LINEAR) scaling.kind = Scaling::Kind::kLinear;
  if (s.kind() != proto::RopeScaling::YARN) return options;
  scaling.kind = Scaling::Kind::kYarn;
  scaling.exact = s.exact();
  scaling.attention_factor =
      s.has_attention_factor() ? s.attention_factor() : 0.1 * std::log(s.factor()) + 1;
  return options;
}

// Rounded down, as transformers does.
int64_t RotatedElements(const proto::Model& numbers) {
  return static_cast<int64_t>(numbers.rotary_share() * static_cast<double>(numbers.head_dim()));
}

double RotaryShare(int64_t rotated, int64_t head_dim) {
  const double size = static_cast<double>(head_dim), share = static_cast<double>(rotated) / size;
  return static_cast<int64_t>(share * size) < rotated ? std::nextafter(share, 1) : share;
}

proto::Graph BuildDecoder(const proto::Model& model, const std::string& name) {
  return Decoder(model, name).Build();
}

}  // namespace oneflow
