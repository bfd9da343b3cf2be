// rms_norm: x[..., H], gamma[H] -> y = x rstd (gamma + offset), and rstd = 1 / sqrt(mean(x^2) +
// epsilon) of each row, which its gradients read again. x, y and their gradients may each be bf16;
// all else is wide. The rows may be those of the residual stream, or those of a head.
#include <cmath>
#include <utility>

#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::Status ExpectGamma(const OpView& v, int gamma, const Tensor& x) {
  return ExpectDims("gamma", v.in(gamma), {x.shape.dims.back()},
                    "the last dim of " + Describe("x", x));
}

absl::Status ExpectOffset(const Op& op) {
  const double offset = AttrDouble(op, "offset");
  return std::isfinite(offset) ? absl::OkStatus()
                               : WrongNumber("offset", offset, "use a number such as 1");
}

Specs InferRmsNorm(const OpView& v) {
  const Tensor& x = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "gamma"}, {0}));
  RETURN_IF_ERROR(ExpectRank("x", x, 2));
  RETURN_IF_ERROR(ExpectGamma(v, 1, x));
  RETURN_IF_ERROR(ExpectEpsilon(v.op));
  RETURN_IF_ERROR(ExpectOffset(v.op));
  ASSIGN_OR_RETURN(const DType y, NormOutputType(v));
  return std::vector<OutputSpec>{{x.shape, y},
                                 {Part(x.shape, 0, LeadingDims(x)), AccumulationType(x.dtype)}};
}

Rows RmsNormRows(const OpView& v) { return LeadRows(v, LeadingDims(v.in(0)), {1}); }

InputGrads RmsNormGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "the scale of an rms_norm"));
  const Op op = g.graph.ops[g.op];
  const TensorId dy = g.output_grads[0], x = op.inputs[0], gamma = op.inputs[1];
  const TensorId rstd = op.outputs[1];
  std::vector<TensorId> grads = {-1, -1};
  if (g.needs_grad[0]) {
    AttrMap attrs;
    if (op.attrs.contains("offset")) attrs["offset"] = AttrDouble(op, "offset");
    grads[0] = AddGradient(g, "rms_norm_grad_input", ".dx", {dy, x, gamma, rstd}, std::move(attrs));
  }
  if (g.needs_grad[1]) grads[1] = AddGradient(g, "rms_norm_grad_weight", ".dw", {dy, x, rstd});
  return grads;
}

// dy has the shape of x; rstd (input `saved`) has one number a row.
absl::Status RmsNormExpectSaved(const OpView& v, int saved) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectRank("x", x, 2));
  RETURN_IF_ERROR(ExpectDims("dy", v.in(0), x.shape.dims, "that of " + Describe("x", x)));
  return ExpectDims("rstd", v.in(saved), Part(x.shape, 0, LeadingDims(x)).dims,
                    "the rows of " + Describe("x", x));
}

Specs RmsNormInferGradInput(const OpView& v) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "x", "gamma", "rstd"}, {0, 1}));
  RETURN_IF_ERROR(RmsNormExpectSaved(v, 3));
  RETURN_IF_ERROR(ExpectOffset(v.op));
  RETURN_IF_ERROR(ExpectGamma(v, 2, x));
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

Rows RmsNormGradInputRows(const OpView& v) { return LeadRows(v, LeadingDims(v.in(1)), {2}); }

Specs RmsNormInferGradWeight(const OpView& v) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "x", "rstd"}, {0, 1}));
  RETURN_IF_ERROR(RmsNormExpectSaved(v, 2));
  return std::vector<OutputSpec>{
      {Part(x.shape, LeadingDims(x), x.shape.rank()), AccumulationType(x.dtype)}};
}

// Also split by columns: each column's sum needs that column and the rstd of all rows.
Rows RmsNormGradWeightRows(const OpView& v) {
  const int lead = LeadingDims(v.in(1));
  Rows rows = {AllB(v)};
  for (int i = 0; i < lead; ++i) rows.push_back({{S(i), S(i), S(i)}, {P()}});
  rows.push_back({{S(lead), S(lead), B()}, {S(0)}});
  return rows;
}

int64_t RmsNormGradWeightOnCuda(const LocalOp& op) {
  const Dims& x = op.in[1];
  const int64_t width = x.empty() ? 1 : x.back();
  return width == 0 ? 0 : RmsNormGradWeightScratch(Product(x) / width, width);
}

// --- Samples: rows of the stream and of heads, and a large one of longer rows than a block of a
// GPU holds ---

constexpr int64_t kRmsNormLongRow = 9001;

SampleTensor Stream(const SampleSizes& s) { return {{s.b, s.t, s.c}}; }
SampleTensor Heads(const SampleSizes& s) { return {{s.b, s.t, s.heads, s.d}}; }
SampleTensor OfStream(const SampleSizes& s) { return {{s.b, s.t}, 0.5, 2}; }  // rstd
SampleTensor OfHeads(const SampleSizes& s) { return {{s.b, s.t, s.heads}, 0.5, 2}; }

Samples RmsNormSamples(const SampleSizes& s) {
  const SampleTensor x = Stream(s), heads = Heads(s), gamma{{s.c}}, of_head{{s.d}};
  Samples samples = {{{x, gamma}},
                     {{heads, of_head}, {{"epsilon", 1e-6}, {"offset", 1.0}}},
                     {{x, gamma}, {{"dtype", std::string("bf16")}}},
                     {{x.Narrow(), gamma}},
                     {{heads.Narrow(), of_head}}};
  if (s.large) samples.push_back({{{{3, kRmsNormLongRow}, -3, 3}, {{kRmsNormLongRow}}}});
  return samples;
}

// Each of dy and x, narrow and not.
Samples RmsNormGradInputSamples(const SampleSizes& s) {
  const SampleTensor x = Stream(s), gamma{{s.c}}, rstd = OfStream(s);
  Samples samples = {{{x, x, gamma, rstd}},
                     {{x.Narrow(), x, gamma, rstd}},
                     {{x, x.Narrow(), gamma, rstd}},
                     {{x.Narrow(), x.Narrow(), gamma, rstd}},
                     {{Heads(s), Heads(s), {{s.d}}, OfHeads(s)}, {{"offset", 1.0}}}};
  if (s.large) {
    const SampleTensor large{{3, kRmsNormLongRow}, -3, 3};
    samples.push_back({{large, large, {{kRmsNormLongRow}}, {{3}, 0.5, 2}}});
  }
  return samples;
}

Samples RmsNormGradWeightSamples(const SampleSizes& s) {
  const SampleTensor x = Stream(s), rstd = OfStream(s);
  Samples samples = {{{x, x, rstd}},
                     {{x.Narrow(), x, rstd}},
                     {{x, x.Narrow(), rstd}},
                     {{x.Narrow(), x.Narrow(), rstd}},
                     {{Heads(s), Heads(s), OfHeads(s)}}};
  if (s.large) samples.push_back({{{{700, 40}}, {{700, 40}}, {{700}, 0.5, 2}}});
  return samples;
}

}  // namespace

std::vector<OpDef> RmsNormOps() {
  return {
      {.kind = "rms_norm",
       .usage = "x[..., H], gamma[H] -> y[..., H], rstd[...]",
       .inputs = {2},
       .outputs = 2,
       .attrs = {{"epsilon", AttrType::kDouble},
                 {"offset", AttrType::kDouble},
                 // The type of y, where it is not x's.
                 OwnAttr("dtype", AttrType::kString)},
       .infer = InferRmsNorm,
       .signatures = RmsNormRows,
       .gradient = RmsNormGradient,
       .flops = PerElement(4),
       .kernel_class = KernelClass::kRows,
       .overwrites = true,
       .precision = {Precision::kToStream, Precision::kWide},
       .may_round = true,
       .selective = true,
       .samples = RmsNormSamples},
      {.kind = "rms_norm_grad_input",
       .usage = "dy, x, gamma, rstd -> dx",
       .inputs = {4},
       .attrs = {{"offset", AttrType::kDouble}},
       .infer = RmsNormInferGradInput,
       .signatures = RmsNormGradInputRows,
       .flops = PerElement(7),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kToStream, Precision::kToStream, Precision::kWide},
       .samples = RmsNormGradInputSamples},
      {.kind = "rms_norm_grad_weight",
       .usage = "dy, x, rstd -> dgamma[H]",
       .inputs = {3},
       .infer = RmsNormInferGradWeight,
       .signatures = RmsNormGradWeightRows,
       .flops = PerElement(3),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kToStream, Precision::kToStream, Precision::kWide},
       .cuda_workspace = RmsNormGradWeightOnCuda,
       .samples = RmsNormGradWeightSamples},
  };
}

}  // namespace oneflow
