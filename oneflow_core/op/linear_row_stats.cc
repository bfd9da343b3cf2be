// linear_row_stats: x[..., H], w[V, H], labels[...] -> max, sum, picked, what row_max, row_sum_exp
// and pick give of the logits x wT, which no tensor holds: the kernel makes a piece of the rows at
// a time, in its workspace. The pass `omit_logits` makes it of linear and these three, and of a
// soft_cap between them: with the attribute `cap` logits are cap * tanh(x wT / cap).
//
// linear_row_stats_grad makes each piece's logits again, turns them into their gradient in place,
// and multiplies that by w, which gives dx of the piece, and by x, which adds to dw. It is one op
// because both need the same logits: two ops would make them twice more, for 5 products in all
// where these are 4. dx is of a micro-batch, while dw may add up over them (OpDef::fresh).
//
// A piece has all columns of its rows, so no row splits the vocabulary: infer_sbp splits tokens
// instead, or gathers w. Types are those that linear, row_max and the others have: x, w, the logits
// and dx may be bf16, while statistics and dw are f32 then.
#include "oneflow_core/op/linear_row_stats_dims.h"

#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// x[..., H], w[V, H] and labels[...], the first inputs of both; `roles` of all that are floats.
absl::Status ExpectFactors(const OpView& v, const std::vector<std::string>& roles) {
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1}));
  const Tensor &x = v.in(0), &w = v.in(1), &labels = v.in(2);
  RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 1));
  RETURN_IF_ERROR(ExpectRank("x", x, 2));
  if (w.shape.rank() != 2 || w.shape.dims[1] != x.shape.dims.back()) {
    return Mismatch(Describe("w", w) + " must be [any, " + std::to_string(x.shape.dims.back()) +
                    "], as follows from " + Describe("x", x));
  }
  RETURN_IF_ERROR(ExpectIds("labels", labels));
  RETURN_IF_ERROR(
      ExpectDims("labels", labels, RowShape(v).dims, "the leading dims of " + Describe("x", x)));
  RETURN_IF_ERROR(ExpectPositive(v.op, "cap"));
  if (AttrInt(v.op, "pieces") >= 0) return absl::OkStatus();
  return Mismatch("attribute \"pieces\" is " + std::to_string(AttrInt(v.op, "pieces")),
                  "it is a number of pieces, or 0");
}

int64_t LinearRowStatsCpuWorkspace(const LocalOp& op, int) {
  const LogitPieces p = FindLogitPieces(op);
  return p.Empty() ? 0 : p.logit_bytes + LogitProductWorkspace(p);
}

int64_t LinearRowStatsCudaWorkspace(const LocalOp& op) {
  const LogitPieces p = FindLogitPieces(op);
  return p.Empty() ? 0 : p.logit_bytes + kLibraryProductScratch;
}

// A multiply-add for each element of x and row of w.
double LinearRowStatsProductFlops(const Dims& x, const Dims& w) {
  return 2.0 * static_cast<double>(Product(x)) * static_cast<double>(w[0]);
}

// Of each element of the logits; `gradient`: of its cap, too.
double ForEachLogit(const OpView& v, double flops, bool gradient) {
  if (v.op.attrs.contains("cap")) flops += kSoftCapFlops + (gradient ? kSoftCapGradFlops : 0);
  return flops * static_cast<double>(RowShape(v).elements()) * static_cast<double>(v.in_dims(1)[0]);
}

// --- linear_row_stats ---

Specs InferStats(const OpView& v) {
  RETURN_IF_ERROR(ExpectFactors(v, {"x", "w"}));
  const OutputSpec stat{RowShape(v), AccumulationType(v.in(0).dtype)};
  return std::vector<OutputSpec>{stat, stat, stat};
}

Rows StatsRows(const OpView& v) { return LeadRows(v, LeadingDims(v), {1}); }

// The op that reads the statistics, a mean_nll of theirs; null if there is another reader.
const Op* FindLoss(const Graph& graph, const Op& stats) {
  const Op* loss = nullptr;
  for (const Op& op : graph.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& t = graph.tensors[op.inputs[i]];
      if (&graph.ops[t.producer] != &stats || op.phase != Phase::kForward) continue;
      const bool expected = op.kind == "mean_nll" && std::cmp_equal(i, t.output);
      if (!expected || (loss != nullptr && loss != &op)) return nullptr;
      loss = &op;
    }
  }
  return loss;
}

// What mean_nll hands to `picked` is the gradient of the loss: see MeanNllGradient.
InputGrads StatsGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const Op* loss = FindLoss(g.graph, g.graph.ops[g.op]);
  if (loss == nullptr || g.output_grads[2] < 0) {
    return Mismatch("its outputs are not read by one mean_nll alone",
                    "write softmax_cross_entropy");
  }
  AttrMap attrs = {{"scale", AttrDouble(*loss, "scale")}, {"pieces", AttrInt(op, "pieces")}};
  if (loss->inputs.size() > 3) attrs["ignore_negative"] = true;
  if (op.attrs.contains("cap")) attrs["cap"] = AttrDouble(op, "cap");
  std::vector<TensorId> inputs = op.inputs;
  inputs.insert(inputs.end(), {op.outputs[0], op.outputs[1], g.output_grads[2]});
  if (!g.needs_grad[1]) {
    return std::vector<TensorId>{
        AddGradient(g, "linear_row_stats_grad_input", ".dx", std::move(inputs), std::move(attrs)),
        -1, -1};
  }
  if (!g.needs_grad[0]) {
    return std::vector<TensorId>{
        -1,
        AddGradient(g, "linear_row_stats_grad_weight", ".dw", std::move(inputs), std::move(attrs)),
        -1};
  }
  const TensorId dx = AddGradient(g, "linear_row_stats_grad", ".dx", std::move(inputs),
                                  std::move(attrs), /*n_outputs=*/2);
  return std::vector<TensorId>{dx, g.graph.Producer(dx).outputs[1], -1};
}

double StatsFlops(const OpView& v) {
  return LinearRowStatsProductFlops(v.in_dims(0), v.in_dims(1)) + ForEachLogit(v, 4, false);
}

// --- linear_row_stats_grad: x, w, labels, max, sum, dloss[] -> dx, dw; or one of the two alone ---

enum class Gradients : uint8_t { kBoth, kInput, kWeight };

template <Gradients made>
Specs LinearRowStatsInferGrad(const OpView& v) {
  const Tensor &x = v.in(0), &w = v.in(1);
  RETURN_IF_ERROR(ExpectFactors(v, {"x", "w"}));
  const std::string of = "the leading dims of " + Describe("x", x);
  RETURN_IF_ERROR(ExpectDims("max", v.in(3), RowShape(v).dims, of));
  RETURN_IF_ERROR(ExpectDims("sum", v.in(4), RowShape(v).dims, of));
  RETURN_IF_ERROR(ExpectDims("dloss", v.in(5), {}, "a scalar"));
  for (int i = 3; i < 6; ++i) {
    if (v.in(i).dtype == AccumulationType(x.dtype)) continue;
    return Mismatch(Describe("x", x) + " and " + Describe("input " + std::to_string(i), v.in(i)) +
                    " differ in type");
  }
  const OutputSpec dx{x.shape, x.dtype}, dw{w.shape, AccumulationType(w.dtype)};
  if (made == Gradients::kInput) return std::vector<OutputSpec>{dx};
  if (made == Gradients::kWeight) return std::vector<OutputSpec>{dw};
  return std::vector<OutputSpec>{dx, dw};
}

template <Gradients made>
Rows LinearRowStatsGradRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < LeadingDims(v); ++i) {
    rows.push_back({{S(i), B(), S(i), S(i), S(i), B()}, {}});
    if (made != Gradients::kWeight) rows.back().out.push_back(S(i));
    if (made != Gradients::kInput) rows.back().out.push_back(P());
  }
  return rows;
}

// The products of gradients that a kernel makes, beside that of the logits.
constexpr int CountProducts(Gradients made) { return made == Gradients::kBoth ? 2 : 1; }

template <Gradients made>
double GradFlops(const OpView& v) {
  const double product = LinearRowStatsProductFlops(v.in_dims(0), v.in_dims(1));
  return (1 + CountProducts(made)) * product + ForEachLogit(v, 4, true);
}

// --- Samples: 70 rows are three pieces, the last one short; a large one has long rows ---

struct Factors {
  SampleTensor x, w, labels, max, sum;
};

// Logits are of the size of ones.
Factors MakeFactors(Dims rows, int64_t width, int64_t vocab) {
  Dims x = rows;
  x.push_back(width);
  return {.x = {x},
          .w = {{vocab, width}, -0.1, 0.1},
          .labels = SampleTensor::Ids(rows, vocab),
          .max = {rows, 1, 3},
          .sum = {rows, 4, 8}};
}

Samples EachFactors(const SampleSizes& s, std::vector<SampleTensor> (*inputs)(const Factors&),
                    AttrMap attrs) {
  Samples samples;
  const auto add = [&](Factors factors, int64_t pieces) {
    AttrMap all = attrs;
    all["pieces"] = pieces;
    samples.push_back({inputs(factors), all});
    factors.x.narrow = factors.w.narrow = true;
    samples.push_back({inputs(factors), std::move(all)});
  };
  add(MakeFactors({2, 35}, s.c, s.vocab), 3);
  add(MakeFactors({s.b, s.t}, s.c, s.vocab), 0);
  if (s.large) add(MakeFactors({70}, s.c, 9001), 2);
  attrs["cap"] = 0.7;
  add(s.large ? MakeFactors({70}, s.c, 700) : MakeFactors({2, 35}, s.c, s.vocab), 3);
  return samples;
}

Samples StatsSamples(const SampleSizes& s) {
  return EachFactors(s, [](const Factors& f) { return std::vector{f.x, f.w, f.labels}; }, {});
}

Samples LinearRowStatsGradSamples(const SampleSizes& s) {
  const auto inputs = [](const Factors& f) {
    return std::vector{f.x, f.w, f.labels, f.max, f.sum, SampleTensor{}};
  };
  const auto ignoring = [](const Factors& f) {
    return std::vector{f.x, f.w, f.labels.SomeNegative(), f.max, f.sum, SampleTensor{}};
  };
  Samples samples = EachFactors(s, inputs, {{"scale", 0.125}});
  for (OpSample& sample : EachFactors(s, ignoring, {{"scale", 1.0}, {"ignore_negative", true}})) {
    samples.push_back(std::move(sample));
  }
  return samples;
}

template <Gradients made>
OpDef GradientOp(std::string_view kind, std::string_view outputs) {
  return {
      .kind = std::string(kind),
      .usage =
          "x[..., H], w[V, H], labels[...], max[...], sum[...], dloss[] -> " + std::string(outputs),
      .inputs = {6},
      .outputs = CountProducts(made),
      .attrs = {{"scale", AttrType::kDouble, true},
                {"ignore_negative", AttrType::kBool},
                {"pieces", AttrType::kInt},
                {"cap", AttrType::kDouble}},
      .infer = LinearRowStatsInferGrad<made>,
      .signatures = LinearRowStatsGradRows<made>,
      .flops = GradFlops<made>,
      .own_products = true,
      .rounds_between = true,
      .counted_flops = [](const LocalOp& op) -> CountedFlops {
        const double product = LinearRowStatsProductFlops(op.in[0], op.in[1]);
        return {.model = CountProducts(made) * product, .recomputed = product};
      },
      .indices = {.input = 2, .of = 1, .dim = 0},
      .overwrites = made == Gradients::kInput,
      .fresh = made == Gradients::kBoth ? 1 : 0,
      .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kEither, Precision::kWide},
      .cpu_workspace = LinearRowStatsCpuWorkspace,
      .cuda_workspace = LinearRowStatsCudaWorkspace,
      .samples = LinearRowStatsGradSamples};
}

}  // namespace

std::vector<OpDef> LinearRowStatsOps() {
  return {
      {.kind = "linear_row_stats",
       .usage = "x[..., H], w[V, H], labels[...] -> max[...], sum[...], picked[...]",
       .inputs = {3},
       .outputs = 3,
       .attrs = {{"ignore_negative", AttrType::kBool},
                 {"pieces", AttrType::kInt},
                 {"cap", AttrType::kDouble}},
       .infer = InferStats,
       .signatures = StatsRows,
       .gradient = StatsGradient,
       .flops = StatsFlops,
       .own_products = true,
       .rounds_between = true,
       .counted_flops = [](const LocalOp& op) -> CountedFlops {
         return {.model = LinearRowStatsProductFlops(op.in[0], op.in[1])};
       },
       .indices = {.input = 2, .of = 1, .dim = 0},
       .overwrites = true,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kEither},
       .cpu_workspace = LinearRowStatsCpuWorkspace,
       .cuda_workspace = LinearRowStatsCudaWorkspace,
       .samples = StatsSamples},
      GradientOp<Gradients::kBoth>("linear_row_stats_grad", "dx[..., H], dw[V, H]"),
      GradientOp<Gradients::kInput>("linear_row_stats_grad_input", "dx[..., H]"),
      GradientOp<Gradients::kWeight>("linear_row_stats_grad_weight", "dw[V, H]"),
  };
}

}  // namespace oneflow
