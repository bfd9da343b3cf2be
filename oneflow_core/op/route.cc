// route: logits[b, t, E] -> w[b, t, k], ids[b, t, k], slots[b, t, k], offsets[G, b, r, E/G + 1]: to
// which k experts each token goes, what each counts for, and where in the queue of its run it
// stands (route_dims.h). Of equal scores the lower expert comes first. `offsets` say where in a
// group's queue the tokens of each expert begin, and where the last ones end.
//
// Weights are scores of the chosen: the softmax over all experts, or sigmoids (`scores`), divided
// by their sum (and 1e-20) if `normalized`, times `scale`. A `bias`[E] is added for the choice
// alone, so its gradient is zero (DeepSeek-AI 2024, DeepSeek-V3). With a `bias_rate` it has none at
// all: the update moves it by that much for each expert, by how often the step chose it
// (optimizer.cc).
//
// Two losses act through the gradient alone, so that the loss that is reported stays that of the
// labels. With p the softmax of the logits, or their sigmoids divided by their sum, and t the
// positions of a run, a run's are
//
//   `balance` * Σ_e f_e P_e, f_e = E / (k t) times the choices of e, P_e = Σ p_e / t    (Fedus et
//     al. 2022, Switch, eq. 4; 1 where all is even)
//   `z` * Σ log²(Σ_e exp(logit_e)) / t                            (Zoph et al. 2022, ST-MoE, eq. 5)
//
// and a step has their mean over all runs: `loss_scale`, which the pass `decompose` writes. Where
// labels are counted, the update divides the gradient by their number, so route_grad multiplies
// the two by that, which it then reads (scale_hidden_losses.cc).
//
// count_choices: ids[b, t, k], slots[b, t, k] -> f64[E + 1]: how many choices fell on each expert,
// whether there was a slot for them or not, and last how many had none. Counts are whole numbers,
// which add up exactly over runs, devices and micro-batches, in any order.
#include <limits>

#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/experts.h"
#include "oneflow_core/op/moved_bias.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr char kSoftmax[] = "softmax", kSigmoid[] = "sigmoid";

absl::Status ExpectLosses(const Op& op) {
  for (const char* key : {"balance", "z"}) {
    const double factor = AttrDouble(op, key);
    if (factor >= 0 && factor < 1e6) continue;
    return Mismatch("attribute \"" + std::string(key) + "\" is " + std::to_string(factor),
                    "use a small number, as 0.01, or 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<RouteDims> CheckLogits(const OpView& v) {
  const Tensor& logits = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"logits"}));
  if (logits.shape.rank() != 3) {
    return Mismatch(Describe("logits", logits) + " must be [batch, seq, experts]");
  }
  RETURN_IF_ERROR(ExpectLosses(v.op));
  const std::string scores = AttrString(v.op, "scores", kSoftmax);
  if (scores != kSoftmax && scores != kSigmoid) {
    return Mismatch("attribute \"scores\" is \"" + scores + "\"", "use softmax or sigmoid");
  }
  return FindRouteDims(v, logits.shape, logits.shape.dims[2], AttrInt(v.op, "choices"));
}

Specs InferRoute(const OpView& v) {
  ASSIGN_OR_RETURN(const RouteDims d, CheckLogits(v));
  const Tensor& logits = v.in(0);
  const double rate = AttrDouble(v.op, "bias_rate");
  if (!(rate >= 0 && rate <= 1)) {
    return Mismatch("attribute \"bias_rate\" is " + std::to_string(rate),
                    "use a small number, as 0.001, or 0");
  }
  if (rate > 0 && v.n_inputs() == 1) {
    return Mismatch("attribute \"bias_rate\" is given, but no bias", "add an input bias[E]");
  }
  if (v.n_inputs() > 1) {
    RETURN_IF_ERROR(ExpectFloat(v, {"logits", "bias"}));
    RETURN_IF_ERROR(ExpectDims("bias", v.in(1), {d.experts},
                               "a number for each expert of " + Describe("logits", logits)));
  }
  const Shape chosen = Join(Part(logits.shape, 0, 2), Shape({d.choices}));
  const Shape queues = Part(SlotShape(d, logits.shape), 0, 3);
  return std::vector<OutputSpec>{{chosen, logits.dtype},
                                 {chosen, DType::kI32},
                                 {chosen, DType::kI32},
                                 {Join(queues, Shape({d.of_group() + 1})), DType::kI32}};
}

Rows RouteRows(const OpView& v) {
  Rows rows = {{{B()}, {B(), B(), B(), B()}}, {{S(0)}, {S(0), S(0), S(0), S(1)}}};
  const int64_t runs = CountRuns(v.op, v.in_dims(0)[1]);
  if (runs > 1) rows.push_back({{S(1)}, {S(1), S(1), S(1), S(2)}, /*divided=*/runs});
  for (Signature& row : rows) row.in.resize(v.n_inputs(), B());
  return rows;
}

InputGrads RouteGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "where a token goes"));
  const Op op = g.graph.ops[g.op];
  std::vector<TensorId> grads(op.inputs.size(), -1);
  if (op.inputs.size() > 1 && g.needs_grad[1] && FindMovedBias(op) < 0) {
    grads[1] = AddZeros(g, op.inputs[1]);
  }
  if (!g.needs_grad[0]) return grads;
  AttrMap attrs;
  for (const char* key : {"scores", "normalized", "scale", "balance", "z", "loss_scale", "run"}) {
    const auto it = op.attrs.find(key);
    if (it != op.attrs.end()) attrs.insert(*it);
  }
  grads[0] = AddGradient(g, "route_grad", ".dlogits",
                         {op.inputs[0], op.outputs[1], g.output_grads[0]}, std::move(attrs));
  return grads;
}

// --- route_grad: logits[b, t, E], ids[b, t, k], dw[b, t, k], (count[]) -> dlogits ---

Specs InferRouteGrad(const OpView& v) {
  const Tensor &logits = v.in(0), &ids = v.in(1), &dw = v.in(2);
  RETURN_IF_ERROR(ExpectFloat(v, {"logits"}));
  RETURN_IF_ERROR(ExpectChoices(ids, ids, logits));
  RETURN_IF_ERROR(ExpectDims("dw", dw, ids.shape.dims, "that of " + Describe("ids", ids)));
  RETURN_IF_ERROR(FindRouteDims(v, logits.shape, logits.shape.dims[2], ids.shape.dims[2]).status());
  RETURN_IF_ERROR(ExpectLosses(v.op));
  if (dw.dtype != logits.dtype) {
    return Mismatch(Describe("logits", logits) + " and " + Describe("dw", dw) + " differ in type");
  }
  if (v.n_inputs() > 3 && (v.in(3).shape.rank() != 0 || v.in(3).dtype != DType::kF64)) {
    return Mismatch(Describe("count", v.in(3)) + " must be f64[]");
  }
  return std::vector<OutputSpec>{{logits.shape, logits.dtype}};
}

Rows RouteGradRows(const OpView& v) {
  Rows rows = {AllB(v), {{S(0), S(0), S(0)}, {S(0)}}};
  const int64_t runs = CountRuns(v.op, v.in_dims(0)[1]);
  if (runs > 1) rows.push_back({{S(1), S(1), S(1)}, {S(1)}, /*divided=*/runs});
  for (Signature& row : rows) row.in.resize(v.n_inputs(), B());
  return rows;
}

int64_t RouteGradOnCuda(const LocalOp& op) {
  const Dims& logits = op.in[0];
  const auto balance = op.attrs.find("balance"), run = op.attrs.find("run");
  if (balance == op.attrs.end() || std::get<double>(balance->second) <= 0) return 0;
  const RouteDims d = MakeRouteDims(
      logits[2], 1, 1, run == op.attrs.end() ? 0 : std::get<int64_t>(run->second), logits[1], 0);
  return d.run == 0 ? 0 : RouteGradScratch(logits[0] * logits[1] / d.run, d.experts);
}

// --- count_choices: ids[b, t, k], slots[b, t, k] -> f64[E + 1] ---

Specs InferCountChoices(const OpView& v) {
  RETURN_IF_ERROR(ExpectChoices(v.in(0), v.in(1), v.in(0)));
  const int64_t experts = AttrInt(v.op, "experts");
  if (experts < 1 || experts > std::numeric_limits<int32_t>::max()) {
    return Mismatch("attribute \"experts\" is " + std::to_string(experts), "use 1 or more");
  }
  return std::vector<OutputSpec>{{Shape({experts + 1}), DType::kF64}};
}

Rows CountChoicesRows(const OpView& v) {
  return {AllB(v), {{S(0), S(0)}, {P()}}, {{S(1), S(1)}, {P()}}};
}

Samples CountChoicesSamples(const SampleSizes& s) {
  Samples samples;
  for (const RouteSample& route : RouteSamples(s)) {
    samples.push_back({{route.ids, route.slots}, {{"experts", route.dims.experts}}});
  }
  return samples;
}

std::vector<AttrDef> ScoreAttrs() {
  return {{"scores", AttrType::kString}, {"normalized", AttrType::kBool},
          {"scale", AttrType::kDouble},  {"balance", AttrType::kDouble},
          {"z", AttrType::kDouble},      OwnAttr("loss_scale", AttrType::kDouble)};
}

// Each kind of score, with scores that are far apart where a test moves them a little.
std::vector<AttrMap> ScoreSamples() {
  return {{{"normalized", true}},
          {{"normalized", false}, {"scale", 2.5}},
          {{"scores", std::string(kSigmoid)}, {"normalized", true}},
          {{"scores", std::string(kSigmoid)}}};
}

Samples MakeRouteSamples(const SampleSizes& s) {
  Samples samples;
  for (AttrMap attrs : ScoreSamples()) {
    for (const RouteSample& route : RouteSamples(s)) {
      const RouteDims& d = route.dims;
      AttrMap all = route.attrs;
      all.erase("experts");
      all["choices"] = d.choices;
      all.insert(attrs.begin(), attrs.end());
      SampleTensor logits{{route.b, route.t, d.experts}, -3, 3};
      // Logits of a token are apart, so that no small change changes a choice.
      for (int64_t i = 0; i < Product(logits.dims); ++i) {
        logits.given.push_back(static_cast<double>((i / d.experts * 5 + i % d.experts * 7) % 13) /
                                   2.5 -
                               2.4 + 0.001 * static_cast<double>(i % d.experts));
      }
      samples.push_back({{logits}, all});
    }
  }
  OpSample biased = samples[0];
  const int64_t experts = biased.in[0].dims[2];
  biased.in.push_back({{experts}});
  for (int64_t e = 0; e < experts; ++e) {
    biased.in[1].given.push_back(0.37 * static_cast<double>((e * 5) % 4));
  }
  samples.push_back(std::move(biased));
  return samples;
}

Samples RouteGradSamples(const SampleSizes& s) {
  Samples samples;
  for (AttrMap attrs : ScoreSamples()) {
    for (const bool losses : {false, true}) {
      const RouteSample route = RouteSamples(s)[losses ? 1 : 0];
      if (losses) {
        const AttrMap more = {
            {"balance", 0.5}, {"z", 0.25}, {"loss_scale", 0.125}, {"run", route.dims.run}};
        attrs.insert(more.begin(), more.end());
      }
      samples.push_back(
          {{{{route.b, route.t, route.dims.experts}, -3, 3}, route.ids, {route.ids.dims}}, attrs});
      if (!losses) continue;
      samples.push_back(samples.back());
      samples.back().in.push_back({{}, 3, 9, 0, /*wide=*/true});  // count
    }
  }
  return samples;
}

}  // namespace

std::vector<OpDef> RouteOps() {
  std::vector<AttrDef> attrs = ScoreAttrs();
  for (AttrDef& attr : RouteAttrs()) attrs.push_back(std::move(attr));
  attrs.push_back({"choices", AttrType::kInt, true});
  attrs.push_back({"bias_rate", AttrType::kDouble});
  std::vector<AttrDef> grad_attrs = ScoreAttrs();
  grad_attrs.push_back({"run", AttrType::kInt});
  return {
      {.kind = "route",
       .usage = "logits[b, t, E], (bias[E]) -> w[b, t, k], ids[b, t, k], slots[b, t, k], "
                "offsets[G, b, r, E/G + 1]",
       .inputs = {1, 2},
       .outputs = 4,
       .attrs = std::move(attrs),
       .infer = InferRoute,
       .signatures = RouteRows,
       .gradient = RouteGradient,
       .flops = PerElement(8),
       .overwrites = true,
       .decides = true,
       .samples = MakeRouteSamples},
      {.kind = "route_grad",
       .usage = "logits[b, t, E], ids[b, t, k], dw[b, t, k], (count (f64[])) -> dlogits[b, t, E]",
       .inputs = {3, 4},
       .attrs = std::move(grad_attrs),
       .infer = InferRouteGrad,
       .signatures = RouteGradRows,
       .flops = PerElement(8),
       .overwrites = true,
       .cpu_workspace =
           [](const LocalOp& op, int threads) {
             return threads * op.in[0][2] * static_cast<int64_t>(sizeof(int64_t));
           },
       .cuda_workspace = RouteGradOnCuda,
       .samples = RouteGradSamples},
      {.kind = "count_choices",
       .usage = "ids[b, t, k], slots[b, t, k] -> f64[E + 1]",
       .inputs = {2},
       .attrs = {{"experts", AttrType::kInt, true}},
       .infer = InferCountChoices,
       .signatures = CountChoicesRows,
       .flops = PerElement(1),
       .cuda_workspace =
           [](const LocalOp& op) {
             return CountChoicesScratch(Product(op.in[0]), AttrInt(op, "experts"));
           },
       .exact = true,
       .samples = CountChoicesSamples}};
}

}  // namespace oneflow
