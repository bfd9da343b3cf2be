// layer_norm: x[..., H], gamma[H], (beta[H]) -> y, and the mean and 1/deviation of each row, which
// its gradients read again. y and its gradient may be bf16, or these and x and its gradient; all
// else is wide.
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Specs InferLayerNorm(const OpView& v) {
  const Tensor& x = v.in(0);
  std::vector<std::string> roles = {"x", "gamma", "beta"};
  roles.resize(v.n_inputs());
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0}));
  RETURN_IF_ERROR(ExpectRank("x", x, 2));
  const Shape rows = Part(x.shape, 0, LeadingDims(x));
  for (int i = 1; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(ExpectDims(roles[i], v.in(i), {x.shape.dims.back()},
                               "the last dim of " + Describe("x", x)));
  }
  RETURN_IF_ERROR(ExpectEpsilon(v.op));
  ASSIGN_OR_RETURN(const DType y, NormOutputType(v));
  const DType wide = AccumulationType(x.dtype);
  return std::vector<OutputSpec>{{x.shape, y}, {rows, wide}, {rows, wide}};
}

Rows LayerNormRows(const OpView& v) {
  return LeadRows(v, LeadingDims(v.in(0)),
                  v.n_inputs() > 2 ? std::vector<int>{1, 2} : std::vector<int>{1});
}

InputGrads LayerNormGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "the mean or deviation of a layer_norm"));
  const Op op = g.graph.ops[g.op];
  const TensorId dy = g.output_grads[0], x = op.inputs[0], gamma = op.inputs[1];
  const TensorId mean = op.outputs[1], rstd = op.outputs[2];
  std::vector<TensorId> grads(op.inputs.size(), -1);
  if (g.needs_grad[0]) {
    grads[0] = AddGradient(g, "layer_norm_grad_input", ".dx", {dy, x, gamma, mean, rstd});
  }
  const bool beta = op.inputs.size() > 2 && g.needs_grad[2];
  if (g.needs_grad[1] || beta) {
    const TensorId dgamma =
        AddGradient(g, "layer_norm_grad_weight", ".dw", {dy, x, mean, rstd}, {}, 2);
    if (g.needs_grad[1]) grads[1] = dgamma;
    if (beta) grads[2] = g.graph.Producer(dgamma).outputs[1];
  }
  return grads;
}

// dy has the shape and type of x; mean and rstd (inputs `saved` and the next) have
// one number a row.
absl::Status ExpectSaved(const OpView& v, int saved) {
  const Tensor &dy = v.in(0), &x = v.in(1);
  if (x.dtype == DType::kBF16) RETURN_IF_ERROR(ExpectSameType(v, {"dy", "x"}, 0, 1));
  RETURN_IF_ERROR(ExpectRank("x", x, 2));
  RETURN_IF_ERROR(ExpectDims("dy", dy, x.shape.dims, "that of " + Describe("x", x)));
  const Dims rows = Part(x.shape, 0, LeadingDims(x)).dims;
  RETURN_IF_ERROR(ExpectDims("mean", v.in(saved), rows, "the rows of " + Describe("x", x)));
  return ExpectDims("rstd", v.in(saved + 1), rows, "the rows of " + Describe("x", x));
}

Specs InferGradInput(const OpView& v) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "x", "gamma", "mean", "rstd"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSaved(v, 3));
  RETURN_IF_ERROR(
      ExpectDims("gamma", v.in(2), {x.shape.dims.back()}, "the last dim of " + Describe("x", x)));
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

Rows GradInputRows(const OpView& v) { return LeadRows(v, LeadingDims(v.in(1)), {2}); }

Specs LayerNormInferGradWeight(const OpView& v) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "x", "mean", "rstd"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSaved(v, 2));
  const Shape hidden = Part(x.shape, LeadingDims(x), x.shape.rank());
  const DType wide = AccumulationType(x.dtype);
  return std::vector<OutputSpec>{{hidden, wide}, {hidden, wide}};
}

// Also split by columns: each column's sum needs that column and the saved numbers of all rows.
Rows LayerNormGradWeightRows(const OpView& v) {
  const int lead = LeadingDims(v.in(1));
  Rows rows = {AllB(v)};
  for (int i = 0; i < lead; ++i) rows.push_back({{S(i), S(i), S(i), S(i)}, {P(), P()}});
  rows.push_back({{S(lead), S(lead), B(), B()}, {S(0), S(0)}});
  return rows;
}

int64_t GradWeightOnCuda(const LocalOp& op) {
  const Dims& x = op.in[1];
  const int64_t width = x.empty() ? 1 : x.back();
  return width == 0 ? 0 : LayerNormGradWeightScratch(Product(x) / width, width);
}

// --- Samples: rows, and a large one of longer rows than a block of a GPU holds ---

constexpr int64_t kLongRow = 9001;

SampleTensor BlockTensor(const SampleSizes& s) { return {{s.b, s.t, s.c}}; }
SampleTensor Saved(const SampleSizes& s) { return {{s.b, s.t}}; }             // means
SampleTensor Positive(const SampleSizes& s) { return {{s.b, s.t}, 0.5, 2}; }  // 1/deviations

Samples LayerNormSamples(const SampleSizes& s) {
  const SampleTensor x = BlockTensor(s), row{{s.c}}, long_row{{kLongRow}};
  Samples samples = {{{x, row}},
                     {{x, row, row}, {{"epsilon", 1e-6}}},
                     {{x, row, row}, {{"dtype", std::string("bf16")}}},
                     {{x.Narrow(), row, row}}};
  if (s.large) samples.push_back({{{{3, kLongRow}, -3, 3}, long_row, long_row}});
  return samples;
}

Samples GradInputSamples(const SampleSizes& s) {
  const SampleTensor x = BlockTensor(s), row{{s.c}}, mean = Saved(s), rstd = Positive(s);
  Samples samples = {{{x, x, row, mean, rstd}},
                     {{x.Narrow(), x, row, mean, rstd}},
                     {{x.Narrow(), x.Narrow(), row, mean, rstd}}};
  if (s.large) {
    const SampleTensor large{{3, kLongRow}, -3, 3}, saved{{3}, 0.5, 2};
    samples.push_back({{large, large, {{kLongRow}}, saved, saved}});
  }
  return samples;
}

Samples GradWeightSamples(const SampleSizes& s) {
  const SampleTensor x = BlockTensor(s), mean = Saved(s), rstd = Positive(s);
  Samples samples = {
      {{x, x, mean, rstd}}, {{x.Narrow(), x, mean, rstd}}, {{x.Narrow(), x.Narrow(), mean, rstd}}};
  if (s.large) samples.push_back({{{{700, 40}}, {{700, 40}}, {{700}}, {{700}, 0.5, 2}}});
  return samples;
}

}  // namespace

std::vector<OpDef> LayerNormOps() {
  return {
      {.kind = "layer_norm",
       .usage = "x[..., H], gamma[H], (beta[H]) -> y[..., H], mean[...], rstd[...]",
       .inputs = {2, 3},
       .outputs = 3,
       .attrs = {{"epsilon", AttrType::kDouble},
                 // The type of y, where it is not x's.
                 OwnAttr("dtype", AttrType::kString)},
       .infer = InferLayerNorm,
       .signatures = LayerNormRows,
       .gradient = LayerNormGradient,
       .flops = PerElement(8),
       .kernel_class = KernelClass::kRows,
       .overwrites = true,
       .precision = {Precision::kStream, Precision::kWide},
       .may_round = true,
       .selective = true,
       .samples = LayerNormSamples},
      {.kind = "layer_norm_grad_input",
       .usage = "dy, x, gamma, mean, rstd -> dx",
       .inputs = {5},
       .infer = InferGradInput,
       .signatures = GradInputRows,
       .flops = PerElement(12),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kToStream, Precision::kStream, Precision::kWide},
       .samples = GradInputSamples},
      {.kind = "layer_norm_grad_weight",
       .usage = "dy, x, mean, rstd -> dgamma[H], dbeta[H]",
       .inputs = {4},
       .outputs = 2,
       .infer = LayerNormInferGradWeight,
       .signatures = LayerNormGradWeightRows,
       .flops = PerElement(5),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kToStream, Precision::kStream, Precision::kWide},
       .cuda_workspace = GradWeightOnCuda,
       .samples = GradWeightSamples},
  };
}

}  // namespace oneflow
