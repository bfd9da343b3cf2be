#include "oneflow_core/model/llama.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

using Value = GraphBuilder::Value;

constexpr char kSoftmax[] = "softmax";

// Those of llama-124m, of the size of GPT-2 124M.
constexpr std::string_view kLlamaDefaults =
    "layers: 12 hidden: 768 inner: 2432 heads: 12 groups: 4 head_dim: 64 sequence: 1024 "
    "vocab: 50257 tied: true theta: 10000 rope_scaling {} norm_epsilon: 1e-5 window: 0 "
    "qkv_bias: false qk_norm: false experts: 0 experts_per_token: 2 shared_inner: 0 "
    "norm_topk_prob: true capacity: 0 slots: 0 slot_groups: 0 scores: 'softmax' bias_rate: 0 "
    "aux_loss_coeff: 0.01 "
    "z_loss_coeff: 0 routed_positions: 0";

// The parts of one model. Each method adds ops whose names begin with `at`.
class Llama {
 public:
  Llama(const proto::Model& model, const std::string& name) : model_(model), g_(name) {
    g_.Family("llama");
  }

  proto::Graph Build() {
    const NamedDims batch = {{"batch", 0}, {"seq", model_.sequence()}};
    const Value tokens = g_.Input("tokens", batch, "tokens", DType::kI32);
    const Value labels = g_.Input("labels", batch, "labels", DType::kI32);
    const Value wte = g_.Variable("wte", {Vocab(), Hidden()}, Normal(kDeviation));

    Value x = g_.Embedding("embed", wte, tokens);
    for (int64_t i = 0; i < model_.layers(); ++i) {
      g_.Block(static_cast<int>(i));
      x = Block("h." + std::to_string(i), x);
    }
    g_.Block(-1);
    x = Norm("norm_f", x, Hidden());
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
  NamedDim Inner() const { return {"inner", model_.inner()}; }
  NamedDim Groups() const { return {"groups", model_.groups()}; }
  NamedDim QueryHeads() const { return {"heads", model_.heads() / model_.groups()}; }
  NamedDim HeadDim() const { return {"head_dim", model_.head_dim()}; }
  std::optional<RotaryOptions::Scaling> Scaling() const {
    const proto::RopeScaling& s = model_.rope_scaling();
    if (s.factor() == 0) return std::nullopt;
    return RotaryOptions::Scaling{
        .factor = s.factor(), .low = s.low(), .high = s.high(), .positions = s.positions()};
  }
  // Projections back onto the residual stream: it adds 2 * layers of them.
  Init Residual() const { return Normal(kDeviation / std::sqrt(2.0 * model_.layers())); }

  Value Norm(const std::string& at, Value x, NamedDim dim) {
    return g_.RmsNorm(at, x, g_.Variable(at + ".weight", {dim}, Ones()), model_.norm_epsilon());
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
    const NamedDims qkv = {Groups(), NamedDim(model_.heads() / model_.groups() + 2), HeadDim()};
    x = Linear(at + ".qkv", x, {Hidden()}, qkv, Normal(kDeviation),
               model_.qkv_bias());  // [b,t,g,r+2,d]
    x = g_.SplitQkv(at + ".split", x, /*parts_first=*/false);
    const Value q = Positioned(at + ".q", x);            // [b,t,g,r,d]
    const Value k = Positioned(at + ".k", x.output(1));  // [b,t,g,d]
    x = g_.Attention(at + ".core", q, k, x.output(2), {.window = model_.window()});
    return Linear(at + ".proj", x, {Groups(), QueryHeads(), HeadDim()}, {Hidden()}, Residual());
  }

  Value Positioned(const std::string& at, Value x) {
    if (model_.qk_norm()) x = Norm(at + "_norm", x, HeadDim());
    return g_.Rotary(at + "_rotary", x, {.theta = model_.theta(), .scaling = Scaling()});
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
    x = g_.Gated(at + ".act", gate, up, "silu");
    return Linear(at + ".proj", x, {inner}, {Hidden()}, Residual());
  }

  Value Experts(const std::string& at, Value x) {
    const NamedDim experts("experts", model_.experts());
    const Value router =
        g_.Variable(at + ".router.weight", {Hidden(), experts}, Normal(kDeviation));
    const Value logits = g_.Linear(at + ".router", x, router, {}, {.wide = true});
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

  const proto::Model& model_;
  GraphBuilder g_;
};

// The usual width of a gated MLP with as many weights as one of 4 * hidden: 8/3 of it, rounded up
// to a multiple of 64.
int64_t UsualInner(int64_t hidden) { return (hidden * 8 / 3 + 63) / 64 * 64; }

// Numbers that act on the experts of a mixture.
constexpr std::string_view kOfExperts[] = {
    "experts_per_token", "shared_inner", "norm_topk_prob", "capacity",       "slots",
    "slot_groups",       "scores",       "bias_rate",      "aux_loss_coeff", "z_loss_coeff",
    "routed_positions"};

absl::Status CheckNoExperts(const proto::Model& said) {
  for (const std::string_view name : kOfExperts) {
    const Row& row = *FindRow(ModelRows(), name);
    if (said.has_experts() || !HasField(row, said)) continue;
    return InputError("--" + std::string(name) + "=" + FieldText(row, said),
                      "acts on nothing in a model without experts",
                      "add --experts=N, or leave it out");
  }
  return absl::OkStatus();
}

// The groups of queues where none are given: experts of 8 groups are split over 2, 4 or 8 devices.
int64_t UsualSlotGroups(int64_t experts) {
  int64_t groups = std::min<int64_t>(experts, 8);
  while (experts % groups != 0) --groups;
  return groups;
}

// Completes slots and slot_groups, of which a capacity is a case. Experts and positions are right.
absl::Status FinishSlots(const proto::Model& said, proto::Model* model) {
  const bool of_each = model->capacity() > 0;
  const int64_t experts = model->experts();
  if (of_each && (said.slots() > 0 || said.slot_groups() > 0)) {
    return InputError(absl::StrCat("--capacity=", model->capacity()),
                      "is --slots with a queue for each expert, and --slots or --slot_groups is "
                      "given, too",
                      "leave out one of them");
  }
  if (of_each) {
    model->set_slots(model->capacity());
    model->set_slot_groups(experts);
    model->set_capacity(0);
  }
  const int64_t groups = model->slot_groups();
  if (model->slots() == 0) {
    if (groups == 0) return absl::OkStatus();
    return InputError(absl::StrCat("--slot_groups=", groups), "acts on nothing without --slots",
                      "add --slots=1.25, or leave it out");
  }
  if (groups > 0 && experts % groups != 0) {
    return InputError(absl::StrCat("--slot_groups=", groups),
                      absl::StrCat("does not divide the ", experts, " experts"), "use a divisor");
  }
  if (groups == 0) model->set_slot_groups(UsualSlotGroups(experts));
  const std::string flag = absl::StrCat(of_each ? "--capacity=" : "--slots=", model->slots());
  constexpr char kMend[] = "use slots relative to even routing, as 1.25, or 0 to drop nothing";
  if (model->slots() > static_cast<double>(experts)) {
    return InputError(flag, "is out of range", kMend);
  }
  const int64_t positions =
      model->routed_positions() > 0 ? model->routed_positions() : model->sequence();
  const double even = static_cast<double>(positions * model->experts_per_token()) /
                      static_cast<double>(model->slot_groups());
  if (model->slots() < 1 && model->slots() * even < 1) {
    return InputError(flag,
                      absl::StrCat("leaves less than one slot to a queue, of ", even,
                                   " tokens where routing is even"),
                      kMend);
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const proto::Model& model) {
  const int64_t experts = model.experts(), chosen = model.experts_per_token();
  if (chosen > experts) {
    return InputError("--experts_per_token=" + std::to_string(chosen),
                      "is out of range: there are " + std::to_string(experts) + " experts",
                      "use 1 to " + std::to_string(experts));
  }
  const int64_t positions =
      model.routed_positions() > 0 ? model.routed_positions() : model.sequence();
  if (model.sequence() % positions != 0) {
    return InputError("--routed_positions=" + std::to_string(positions),
                      "does not divide --sequence=" + std::to_string(model.sequence()),
                      "use a divisor, or leave it out: a whole sequence is routed together then");
  }
  return absl::OkStatus();
}

absl::Status FinishLlama(const proto::Model& said, proto::Model* model) {
  const int64_t heads = model->heads(), hidden = model->hidden();
  if (!said.has_groups() && said.has_heads() && !said.has_preset()) model->set_groups(heads);
  if (!said.has_inner() && said.has_hidden()) model->set_inner(UsualInner(hidden));
  if (!said.has_head_dim() && (said.has_heads() || said.has_hidden())) {
    if (hidden % heads != 0) {
      return InputError("--heads=" + std::to_string(heads),
                        "does not divide --hidden=" + std::to_string(hidden),
                        "write --head_dim=N, the size of a head");
    }
    model->set_head_dim(hidden / heads);
  }
  RETURN_IF_ERROR(model->experts() > 0 ? CheckExperts(*model) : CheckNoExperts(said));
  if (model->experts() > 0) RETURN_IF_ERROR(FinishSlots(said, model));
  if (heads % model->groups() != 0) {
    return InputError("--groups=" + std::to_string(model->groups()),
                      "does not divide --heads=" + std::to_string(heads),
                      "each group has an equal part of the query heads");
  }
  if (model->head_dim() % 2 != 0) {
    return InputError("--head_dim=" + std::to_string(model->head_dim()), "is odd",
                      "use an even number: rotary positions turn pairs of elements");
  }
  return absl::OkStatus();
}

proto::Graph BuildLlama(const proto::Model& model, const std::string& name) {
  return Llama(model, name).Build();
}

}  // namespace

Family LlamaFamily() {
  return {.name = "llama",
          .models = "Llama, Mistral, Mixtral and Qwen",
          .defaults = kLlamaDefaults,
          .presets = LlamaPresets(),
          .finish = FinishLlama,
          .build = BuildLlama,
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

}  // namespace oneflow
