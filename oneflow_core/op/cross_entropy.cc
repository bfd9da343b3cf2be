// Softmax cross entropy. Users write softmax_cross_entropy; the pass `decompose` makes it
//
//   max = row_max(logits)    sum = row_sum_exp(logits, max)    picked = pick(logits, labels)
//   loss = mean_nll(max, sum, picked)
//
// so that logits split by vocabulary need to exchange three numbers a row only. The four are
// differentiated as one: see MeanNllGradient. The pass `fuse` may make row_stats of the first
// three. Logits and their gradient may be bf16; maxima, sums and the loss are f32 then.
//
// With the attribute `ignore_negative`, a row whose label is negative does not count. mean_nll then
// reads the labels, too, and gives the sum of the others; count_labels counts them. Both add up
// over a step, and the pass `divide_by_count` divides one by the other. With `unlabelled`, so many
// labels of each sequence are known to be negative: the mean is over the others, and needs no
// count.
//
// A loss is multiplied by `factor`. One that is `gradient_only` is 0: it is minimised beside the
// loss that is reported.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// x[..., V] and an i32 tensor of its leading dims.
absl::Status ExpectRowsAndIds(std::string_view x_role, const Tensor& x, std::string_view ids_role,
                              const Tensor& ids) {
  RETURN_IF_ERROR(ExpectRank(x_role, x, 1));
  RETURN_IF_ERROR(ExpectIds(ids_role, ids));
  return ExpectDims(ids_role, ids, Part(x.shape, 0, x.shape.rank() - 1).dims,
                    "the leading dims of " + Describe(x_role, x));
}

// --- softmax_cross_entropy ---

Specs CrossEntropyInferComposite(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"logits"}));
  RETURN_IF_ERROR(ExpectRowsAndIds("logits", v.in(0), "labels", v.in(1)));
  const int64_t unlabelled = AttrInt(v.op, "unlabelled"), length = v.in_dims(1).back();
  if (unlabelled < 0 || (unlabelled > 0 && unlabelled >= length)) {
    return Mismatch("attribute \"unlabelled\" is " + std::to_string(unlabelled) +
                        ", of sequences of " + std::to_string(length),
                    "use fewer, or 0");
  }
  if (unlabelled > 0 && AttrBool(v.op, "ignore_negative")) {
    return Mismatch("attributes \"unlabelled\" and \"ignore_negative\" are both given",
                    "leave one of them out");
  }
  const double factor = AttrDouble(v.op, "factor", 1);
  if (!(factor >= 0 && factor < 1e6)) {
    return Mismatch("attribute \"factor\" is " + std::to_string(factor),
                    "use a small number, as 0.1");
  }
  return std::vector<OutputSpec>{{Shape{}, v.in(0).dtype}};
}

InputGrads CrossEntropyCompositeGradient(GradientContext&) {
  return absl::InternalError("softmax_cross_entropy is differentiated after `decompose`");
}

// --- row_max, row_sum_exp, pick ---

Specs InferRowMax(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRank("x", v.in(0), 1));
  return std::vector<OutputSpec>{{RowShape(v), AccumulationType(v.in(0).dtype)}};
}

Rows RowMaxRows(const OpView& v) {
  Rows rows = LeadRows(v, LeadingDims(v));
  rows.push_back({{S(LeadingDims(v))}, {PMax()}});
  return rows;
}

Specs InferRowSumExp(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "max"}, {0}));
  RETURN_IF_ERROR(ExpectRank("x", v.in(0), 1));
  RETURN_IF_ERROR(ExpectDims("max", v.in(1), RowShape(v).dims,
                             "the leading dims of " + Describe("x", v.in(0))));
  return std::vector<OutputSpec>{{RowShape(v), AccumulationType(v.in(0).dtype)}};
}

Specs InferPick(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRowsAndIds("x", v.in(0), "ids", v.in(1)));
  return std::vector<OutputSpec>{{RowShape(v), AccumulationType(v.in(0).dtype)}};
}

// The rows of row_sum_exp and of pick: a piece of the vocabulary gives a piece of the sum, and zero
// for ids that lie in other pieces.
Rows RowSumRows(const OpView& v) {
  Rows rows = LeadRows(v, LeadingDims(v));
  rows.push_back({{S(LeadingDims(v)), B()}, {P()}});
  return rows;
}

// --- row_stats: all three in one pass over x, where each device has whole rows ---

Specs InferRowStats(const OpView& v) {
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> picked, InferPick(v));
  return std::vector<OutputSpec>{picked[0], picked[0], picked[0]};
}

Rows RowStatsRows(const OpView& v) { return LeadRows(v, LeadingDims(v)); }

// The gradient that reaches `picked` is already that of the logits: see MeanNllGradient.
InputGrads PickGradient(GradientContext& g) {
  const TensorId picked = g.graph.ops[g.op].outputs[0];
  for (const Op& op : g.graph.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == picked && op.kind != "mean_nll") {
        return Mismatch("its output is read by " + op.name + " (" + op.kind + ')',
                        "only mean_nll may read a pick that is differentiated");
      }
    }
  }
  return std::vector<TensorId>{g.output_grads[0], -1};
}

// --- mean_nll: max, sum, picked, (labels) -> loss[] ---

Specs InferMeanNll(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"max", "sum", "picked"}));
  if (v.n_inputs() > 3) {
    RETURN_IF_ERROR(ExpectIds("labels", v.in(3)));
    RETURN_IF_ERROR(
        ExpectDims("labels", v.in(3), v.in_dims(0), "that of " + Describe("max", v.in(0))));
  }
  const std::string of = "that of " + Describe("max", v.in(0));
  RETURN_IF_ERROR(ExpectDims("sum", v.in(1), v.in_dims(0), of));
  RETURN_IF_ERROR(ExpectDims("picked", v.in(2), v.in_dims(0), of));
  return std::vector<OutputSpec>{{Shape{}, v.in(0).dtype}};
}

Rows MeanNllRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) {
    rows.push_back({std::vector<Sbp>(v.n_inputs(), S(i)), {P()}});
  }
  return rows;
}

// The gradient of the loss, handed to `picked`.
InputGrads OfLoss(const GradientContext& g) {
  std::vector<TensorId> grads(g.needs_grad.size(), -1);
  grads[2] = g.output_grads[0];
  return grads;
}

// (softmax - onehot) in one op: taken apart, the gradients through sum and picked would be two
// tensors of the logits' size. The result is given to `picked`, whose producer hands it on to the
// logits as it is; row_max and row_sum_exp are not differentiable, so nothing flows there. Where no
// tensor holds the logits, their statistics' op makes their gradient itself, of that of the loss.
InputGrads MeanNllGradient(GradientContext& g) {
  const Graph& graph = g.graph;
  const Op op = graph.ops[g.op];
  const TensorId max = op.inputs[0], sum = op.inputs[1];
  const Op& pick = graph.Producer(op.inputs[2]);
  if (pick.kind == "linear_row_stats") return OfLoss(g);
  const Op& row_max = graph.Producer(max);
  const Op& row_sum = graph.Producer(sum);
  if (pick.kind != "pick" || row_max.kind != "row_max" || row_sum.kind != "row_sum_exp" ||
      row_max.inputs[0] != pick.inputs[0] || row_sum.inputs[0] != pick.inputs[0] ||
      row_sum.inputs[1] != max) {
    return Mismatch("its inputs are not row_max, row_sum_exp and pick of the same logits",
                    "write softmax_cross_entropy");
  }
  std::vector<TensorId> grads(op.inputs.size(), -1);
  AttrMap attrs = {{"scale", AttrDouble(op, "scale")}};
  if (op.inputs.size() > 3) attrs["ignore_negative"] = true;
  grads[2] =
      AddGradient(g, "cross_entropy_grad", ".dlogits",
                  {pick.inputs[0], pick.inputs[1], max, sum, g.output_grads[0]}, std::move(attrs));
  return grads;
}

// --- count_labels: labels[...] -> f64[] ---

Specs InferCountLabels(const OpView& v) {
  RETURN_IF_ERROR(ExpectIds("labels", v.in(0)));
  return std::vector<OutputSpec>{{Shape{}, DType::kF64}};
}

Rows CountLabelsRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) rows.push_back({{S(i)}, {P()}});
  return rows;
}

// --- divide: a[], b (f64[]) -> a / b ---

Specs InferDivide(const OpView& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  RETURN_IF_ERROR(ExpectDims("a", a, {}, "a scalar"));
  RETURN_IF_ERROR(ExpectDims("b", b, {}, "a scalar"));
  if ((a.dtype != DType::kF32 && a.dtype != DType::kF64) || b.dtype != DType::kF64) {
    return Mismatch(Describe("a", a) + " and " + Describe("b", b) + " must be f32 or f64, and f64");
  }
  return std::vector<OutputSpec>{{Shape{}, a.dtype}};
}

// --- cross_entropy_grad: logits, labels, max, sum, dloss[] -> dlogits ---

Specs InferGrad(const OpView& v) {
  const Tensor &logits = v.in(0), &dloss = v.in(4);
  RETURN_IF_ERROR(ExpectFloat(v, {"logits"}, {0}));
  RETURN_IF_ERROR(ExpectRowsAndIds("logits", logits, "labels", v.in(1)));
  const std::string of = "the leading dims of " + Describe("logits", logits);
  RETURN_IF_ERROR(ExpectDims("max", v.in(2), RowShape(v).dims, of));
  RETURN_IF_ERROR(ExpectDims("sum", v.in(3), RowShape(v).dims, of));
  RETURN_IF_ERROR(ExpectDims("dloss", dloss, {}, "a scalar"));
  for (int i = 2; i < 5; ++i) {
    if (v.in(i).dtype == AccumulationType(logits.dtype)) continue;
    return Mismatch(Describe("logits", logits) + " and " +
                    Describe("input " + std::to_string(i), v.in(i)) + " differ in type");
  }
  return std::vector<OutputSpec>{{logits.shape, logits.dtype}};
}

Rows GradRows(const OpView& v) {
  Rows rows = LeadRows(v, LeadingDims(v), {4});
  rows.push_back({{S(LeadingDims(v)), B(), B(), B(), B()}, {S(LeadingDims(v))}});
  return rows;
}

// --- Samples: a large one has longer rows than a block of a GPU holds ---

struct RowSamples {
  SampleTensor x, ids, max, sum;
};

RowSamples MakeRows(Dims rows, int64_t vocab) {
  Dims x = rows;
  x.push_back(vocab);
  return {{x, -3, 3}, SampleTensor::Ids(rows, vocab), {rows, 1, 3}, {rows, 0.5, 2}};
}

// What `inputs` makes of rows: wide and narrow ones, and long ones if `s` is large.
std::function<Samples(const SampleSizes&)> EachRows(
    std::vector<SampleTensor> (*inputs)(const RowSamples&), const AttrMap& attrs = {}) {
  return [inputs, attrs](const SampleSizes& s) {
    RowSamples rows = MakeRows({s.b, s.t}, s.vocab);
    Samples samples = {{inputs(rows), attrs}};
    rows.x.narrow = true;
    samples.push_back({inputs(rows), attrs});
    if (s.large) samples.push_back({inputs(MakeRows({3}, 9001)), attrs});
    return samples;
  };
}

Samples GradSamples(const SampleSizes& s) {
  const auto inputs = [](const RowSamples& r) {
    return std::vector{r.x, r.ids, r.max, r.sum, SampleTensor{}};
  };
  Samples samples = EachRows(inputs, {{"scale", 0.125}})(s);
  for (size_t i = 0, made = samples.size(); i < made; ++i) {
    OpSample ignores = samples[i];
    ignores.in[1] = ignores.in[1].SomeNegative();
    ignores.attrs = {{"scale", 1.0}, {"ignore_negative", true}};
    samples.push_back(std::move(ignores));
  }
  return samples;
}

}  // namespace

std::vector<OpDef> CrossEntropyOps() {
  return {
      {.kind = "softmax_cross_entropy",
       .usage = "logits[..., V], labels[...] -> loss[]",
       .inputs = {2},
       .attrs = {{"ignore_negative", AttrType::kBool},
                 {"unlabelled", AttrType::kInt},
                 {"factor", AttrType::kDouble},
                 {"gradient_only", AttrType::kBool}},
       .infer = CrossEntropyInferComposite,
       .signatures = OnlyB,
       .gradient = CrossEntropyCompositeGradient,
       .flops = PerElement(4),
       .indices = {.input = 1, .of = 0, .dim = -1},
       .on_cpu = false,
       .on_cuda = false,
       .samples = [](const SampleSizes& s) -> Samples {
         const RowSamples rows = MakeRows({s.b, s.t}, s.vocab);
         return {{{rows.x, rows.ids}}};
       }},
      {.kind = "row_max",
       .usage = "x[..., V] -> [...]",
       .inputs = {1},
       .infer = InferRowMax,
       .signatures = RowMaxRows,
       .flops = PerElement(1),
       .kernel_class = KernelClass::kRows,
       .overwrites = true,
       .precision = {Precision::kEither},
       .exact = true,
       .samples = EachRows([](const RowSamples& r) { return std::vector{r.x}; })},
      {.kind = "row_sum_exp",
       .usage = "x[..., V], max[...] -> [...]",
       .inputs = {2},
       .infer = InferRowSumExp,
       .signatures = RowSumRows,
       .flops = PerElement(3),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kEither, Precision::kWide},
       .samples = EachRows([](const RowSamples& r) {
         return std::vector{r.x, r.max};
       })},
      {.kind = "pick",
       .usage = "x[..., V], ids[...] -> [...]",
       .inputs = {2},
       .attrs = {{"ignore_negative", AttrType::kBool}},
       .infer = InferPick,
       .signatures = RowSumRows,
       .gradient = PickGradient,
       .flops = PerElement(1, 1),
       .kernel_class = KernelClass::kGather,
       .indices = {.input = 1, .of = 0, .dim = -1},
       .looks_up = true,
       .precision = {Precision::kEither, Precision::kWide},
       .exact = true,
       .samples = EachRows([](const RowSamples& r) {
         return std::vector{r.x, r.ids};
       })},
      {.kind = "row_stats",
       .usage = "x[..., V], ids[...] -> max[...], sum[...], picked[...]",
       .inputs = {2},
       .outputs = 3,
       .attrs = {{"ignore_negative", AttrType::kBool}},
       .infer = InferRowStats,
       .signatures = RowStatsRows,
       .flops = PerElement(4),
       .kernel_class = KernelClass::kRows,
       .indices = {.input = 1, .of = 0, .dim = -1},
       .overwrites = true,
       .samples = EachRows([](const RowSamples& r) {
         return std::vector{r.x, r.ids};
       })},
      {.kind = "mean_nll",
       .usage = "max[...], sum[...], picked[...], (labels[...]) -> loss[]",
       .inputs = {3, 4},
       .attrs = {{"scale", AttrType::kDouble, true}, {"gradient_only", AttrType::kBool}},
       .infer = InferMeanNll,
       .signatures = MeanNllRows,
       .gradient = MeanNllGradient,
       .flops = PerElement(4),
       .kernel_class = KernelClass::kRows,
       .samples = [](const SampleSizes& s) -> Samples {
         const RowSamples rows = MakeRows({s.b, s.t}, s.vocab);
         const SampleTensor picked{{s.b, s.t}};
         return {{{rows.max, rows.sum, picked}, {{"scale", 0.125}}},
                 {{rows.max, rows.sum, picked, rows.ids.SomeNegative()}, {{"scale", 1.0}}},
                 {{rows.max, rows.sum, picked}, {{"scale", 0.5}, {"gradient_only", true}}}};
       }},
      {.kind = "count_labels",
       .usage = "labels[...] -> f64[]",
       .inputs = {1},
       .infer = InferCountLabels,
       .signatures = CountLabelsRows,
       .flops = PerElement(1),
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{SampleTensor::Ids({s.b, s.t}, s.vocab).SomeNegative()}}};
       }},
      {.kind = "divide",
       .usage = "a[], b (f64[]) -> a / b",
       .inputs = {2},
       .infer = InferDivide,
       .signatures = OnlyB,
       .flops = PerElement(4),  // a division takes as long as some sums
       .overwrites = true,
       .samples = [](const SampleSizes&) -> Samples {
         const SampleTensor wide = SampleTensor::Wide({});
         return {{{SampleTensor{}, wide}}, {{wide, wide}}};
       }},
      {.kind = "cross_entropy_grad",
       .usage = "logits[..., V], labels[...], max[...], sum[...], dloss[] -> dlogits[..., V]",
       .inputs = {5},
       .attrs = {{"scale", AttrType::kDouble, true}, {"ignore_negative", AttrType::kBool}},
       .infer = InferGrad,
       .signatures = GradRows,
       .flops = PerElement(4),
       .kernel_class = KernelClass::kRows,
       .indices = {.input = 1, .of = 0, .dim = -1},
       .precision = {Precision::kEither, Precision::kWide},
       .samples = GradSamples},
  };
}

}  // namespace oneflow
