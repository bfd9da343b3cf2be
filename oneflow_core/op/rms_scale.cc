// A norm in two ops, over the trailing dimensions of x[..., n...], which devices may split: where
// rms_norm needs full rows, these exchange one number a row.
//
//   sums = square_sums(x)               Σ x^2 over n..., partial where one of them is split
//   y = rms_scale(x, sums, gamma[n...])  x r gamma, with r = 1 / sqrt(sums / of + epsilon)
//
// rms_scale has the gradients of its three inputs: that of x, given the sums, is rms_scale of dy;
// that of gamma is rms_scale_grad_weight, a sum over rows; that of the sums rms_scale_grad_sums, a
// sum over n.... square_sums_grad makes what they add to dx. Attribute `of`: the elements that a
// row has on all devices. Tensors of x's shape may be bf16, together; all else is wide.
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// The dimensions of x before those of a row, `dims` of them.
int RowsDims(const Tensor& x, int64_t dims) { return x.shape.rank() - static_cast<int>(dims); }

absl::Status ExpectRowDims(const Tensor& x, int64_t dims) {
  if (dims >= 1 && dims < x.shape.rank()) return absl::OkStatus();
  return Mismatch(Describe("x", x) + " has no rows of " + std::to_string(dims) + " dimension(s)",
                  "leave at least one dimension before them");
}

absl::Status ExpectSums(const OpView& v, int sums, const Tensor& x, int64_t dims) {
  return ExpectDims("sums", v.in(sums), Part(x.shape, 0, RowsDims(x, dims)).dims,
                    "the rows of " + Describe("x", x));
}

// Checks x, input 0 or of the type and shape of dy, which is input 0 then, its sums and its gamma;
// -1: there is none. `roles`: of all inputs.
absl::Status ExpectScaled(const OpView& v, const std::vector<std::string>& roles, int sums,
                          int gamma, int64_t dims) {
  const bool has_dy = sums == 2;
  const Tensor& x = v.in(has_dy ? 1 : 0);
  RETURN_IF_ERROR(has_dy ? ExpectFloat(v, roles, {0, 1}) : ExpectFloat(v, roles, {0}));
  if (has_dy) {
    RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 1));
    RETURN_IF_ERROR(ExpectDims("dy", v.in(0), x.shape.dims, "that of " + Describe("x", x)));
  }
  RETURN_IF_ERROR(ExpectRowDims(x, dims));
  RETURN_IF_ERROR(ExpectSums(v, sums, x, dims));
  const int rank = x.shape.rank();
  if (gamma >= 0) {
    RETURN_IF_ERROR(ExpectDims("gamma", v.in(gamma), Part(x.shape, RowsDims(x, dims), rank).dims,
                               "the last dims of " + Describe("x", x)));
  }
  RETURN_IF_ERROR(ExpectEpsilon(v.op));
  const int64_t of = AttrInt(v.op, "of"), row = Part(x.shape, RowsDims(x, dims), rank).elements();
  if (of == row) return absl::OkStatus();
  return WrongNumber("of", static_cast<double>(of),
                     "give the elements of a row, " + std::to_string(row));
}

// --- square_sums: x[..., n...] -> sums[...] ---

Specs InferSquareSums(const OpView& v) {
  const Tensor& x = v.in(0);
  const int64_t dims = AttrInt(v.op, "dims");
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRowDims(x, dims));
  return std::vector<OutputSpec>{{Part(x.shape, 0, RowsDims(x, dims)), AccumulationType(x.dtype)}};
}

Rows SquareSumsRows(const OpView& v) {
  const Tensor& x = v.in(0);
  const int64_t dims = AttrInt(v.op, "dims");
  Rows rows = LeadRows(v, RowsDims(x, dims));
  for (int k = RowsDims(x, dims); k < x.shape.rank(); ++k) rows.push_back({{S(k)}, {P()}});
  return rows;
}

InputGrads SquareSumsGradient(GradientContext& g) {
  const TensorId x = g.graph.ops[g.op].inputs[0];
  return std::vector<TensorId>{AddGradient(g, "square_sums_grad", ".dx", {g.output_grads[0], x})};
}

// --- square_sums_grad: dsums[...], x[..., n...] -> dx = 2 x dsums ---

int64_t GradDims(const OpView& v) { return v.in(1).shape.rank() - v.in(0).shape.rank(); }

Specs InferSquareSumsGrad(const OpView& v) {
  const Tensor& x = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dsums", "x"}, {1}));
  RETURN_IF_ERROR(ExpectRowDims(x, GradDims(v)));
  RETURN_IF_ERROR(ExpectSums(v, 0, x, GradDims(v)));
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

Rows SquareSumsGradRows(const OpView& v) {
  const Tensor& x = v.in(1);
  Rows rows = LeadRows(v, v.in(0).shape.rank());
  for (int k = v.in(0).shape.rank(); k < x.shape.rank(); ++k) {
    rows.push_back({{B(), S(k)}, {S(k)}});
  }
  return rows;
}

// --- rms_scale: x[..., n...], sums[...], gamma[n...] -> y[..., n...] ---

int64_t GammaDims(const OpView& v, int gamma) { return v.in(gamma).shape.rank(); }

Specs InferRmsScale(const OpView& v) {
  RETURN_IF_ERROR(ExpectScaled(v, {"x", "sums", "gamma"}, 1, 2, GammaDims(v, 2)));
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

Rows RmsScaleRows(const OpView& v) {
  const Tensor& x = v.in(0);
  const int lead = RowsDims(x, GammaDims(v, 2));
  Rows rows = LeadRows(v, lead, {2});
  for (int k = lead; k < x.shape.rank(); ++k) rows.push_back({{S(k), B(), S(k - lead)}, {S(k)}});
  return rows;
}

InputGrads RmsScaleGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId dy = g.output_grads[0], x = op.inputs[0], sums = op.inputs[1];
  const TensorId gamma = op.inputs[2];
  std::vector<TensorId> grads = {-1, -1, -1};
  if (g.needs_grad[0]) {
    grads[0] = AddGradient(g, "rms_scale", ".dx", {dy, sums, gamma}, op.attrs);
  }
  if (g.needs_grad[1]) {
    grads[1] = AddGradient(g, "rms_scale_grad_sums", ".dsums", {dy, x, sums, gamma}, op.attrs);
  }
  if (g.needs_grad[2]) {
    grads[2] = AddGradient(g, "rms_scale_grad_weight", ".dw", {dy, x, sums}, op.attrs);
  }
  return grads;
}

// --- rms_scale_grad_sums: dy, x, sums, gamma -> dsums = -1/2 r^3 / of Σ dy x gamma ---

Specs InferRmsScaleGradSums(const OpView& v) {
  RETURN_IF_ERROR(ExpectScaled(v, {"dy", "x", "sums", "gamma"}, 2, 3, GammaDims(v, 3)));
  return std::vector<OutputSpec>{{v.in(2).shape, v.in(2).dtype}};
}

Rows RmsScaleGradSumsRows(const OpView& v) {
  const Tensor& x = v.in(1);
  const int lead = RowsDims(x, GammaDims(v, 3));
  Rows rows = LeadRows(v, lead, {3});
  for (int k = lead; k < x.shape.rank(); ++k) {
    rows.push_back({{S(k), S(k), B(), S(k - lead)}, {P()}});
  }
  return rows;
}

// --- rms_scale_grad_weight: dy, x, sums -> dgamma = Σ dy x r over rows ---

int64_t WeightDims(const OpView& v) { return v.in(1).shape.rank() - v.in(2).shape.rank(); }

Specs InferRmsScaleGradWeight(const OpView& v) {
  RETURN_IF_ERROR(ExpectScaled(v, {"dy", "x", "sums"}, 2, -1, WeightDims(v)));
  const Tensor& x = v.in(1);
  return std::vector<OutputSpec>{
      {Part(x.shape, v.in(2).shape.rank(), x.shape.rank()), AccumulationType(x.dtype)}};
}

Rows RmsScaleGradWeightRows(const OpView& v) {
  const int lead = v.in(2).shape.rank();
  Rows rows = {AllB(v)};
  for (int i = 0; i < lead; ++i) rows.push_back({{S(i), S(i), S(i)}, {P()}});
  for (int k = lead; k < v.in(1).shape.rank(); ++k) {
    rows.push_back({{S(k), S(k), B()}, {S(k - lead)}});
  }
  return rows;
}

int64_t RmsScaleGradWeightOnCuda(const LocalOp& op) {
  const int64_t rows = CountElements(op.in[2]), all = CountElements(op.in[1]);
  return rows == 0 ? 0 : RmsNormGradWeightScratch(rows, all / rows);
}

// --- Samples: queries of groups, and heads; a large one of longer rows than a block of a GPU ---

struct ScaledSample {
  SampleTensor x, sums, gamma;
  AttrMap attrs;
};

std::vector<ScaledSample> ScaledSamples(const SampleSizes& s) {
  const auto make = [](Dims rows, Dims row) {
    Dims x = rows;
    x.insert(x.end(), row.begin(), row.end());
    const int64_t of = Product(row);
    const auto most = static_cast<double>(of);
    return ScaledSample{{x}, {rows, most / 4, most}, {row}, {{"of", of}, {"epsilon", 1e-6}}};
  };
  std::vector<ScaledSample> samples = {make({s.b, s.t}, {s.heads, 2, s.d}),
                                       make({s.b, s.t}, {s.heads, s.d})};
  if (s.large) samples.push_back(make({3}, {9001}));
  return samples;
}

Samples EachScaled(const SampleSizes& s,
                   std::vector<SampleTensor> (*inputs)(const ScaledSample& sample)) {
  Samples samples;
  for (ScaledSample& sample : ScaledSamples(s)) {
    samples.push_back({inputs(sample), sample.attrs});
    sample.x.narrow = true;
    samples.push_back({inputs(sample), sample.attrs});
  }
  return samples;
}

Samples SquareSumsSamples(const SampleSizes& s) {
  Samples samples = EachScaled(s, [](const ScaledSample& r) { return std::vector{r.x}; });
  for (OpSample& sample : samples) {
    const auto dims = static_cast<int64_t>(sample.in[0].dims.size());
    sample.attrs = {{"dims", dims == 2 ? int64_t{1} : dims - 2}};
  }
  return samples;
}

Samples SquareSumsGradSamples(const SampleSizes& s) {
  Samples samples = EachScaled(s, [](const ScaledSample& r) { return std::vector{r.sums, r.x}; });
  for (OpSample& sample : samples) sample.attrs.clear();
  return samples;
}

Samples RmsScaleSamples(const SampleSizes& s) {
  return EachScaled(s, [](const ScaledSample& r) { return std::vector{r.x, r.sums, r.gamma}; });
}

Samples RmsScaleGradSumsSamples(const SampleSizes& s) {
  return EachScaled(s, [](const ScaledSample& r) {
    return std::vector{r.x, r.x, r.sums, r.gamma};
  });
}

Samples RmsScaleGradWeightSamples(const SampleSizes& s) {
  return EachScaled(s, [](const ScaledSample& r) { return std::vector{r.x, r.x, r.sums}; });
}

std::vector<AttrDef> ScaleAttrs() {
  return {{"of", AttrType::kInt, true}, {"epsilon", AttrType::kDouble}};
}

}  // namespace

std::vector<OpDef> RmsScaleOps() {
  return {
      {.kind = "square_sums",
       .usage = "x[..., n...] -> sums[...]",
       .inputs = {1},
       .attrs = {{"dims", AttrType::kInt, true}},
       .infer = InferSquareSums,
       .signatures = SquareSumsRows,
       .gradient = SquareSumsGradient,
       .flops = PerElement(2),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kNarrow},
       .selective = true,
       .samples = SquareSumsSamples},
      {.kind = "square_sums_grad",
       .usage = "dsums[...], x[..., n...] -> dx",
       .inputs = {2},
       .infer = InferSquareSumsGrad,
       .signatures = SquareSumsGradRows,
       .flops = PerElement(2, 1),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kWide, Precision::kNarrow},
       .samples = SquareSumsGradSamples},
      {.kind = "rms_scale",
       .usage = "x[..., n...], sums[...], gamma[n...] -> y[..., n...]",
       .inputs = {3},
       .attrs = ScaleAttrs(),
       .infer = InferRmsScale,
       .signatures = RmsScaleRows,
       .gradient = RmsScaleGradient,
       .flops = PerElement(2),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kNarrow, Precision::kWide},
       .selective = true,
       .samples = RmsScaleSamples},
      {.kind = "rms_scale_grad_sums",
       .usage = "dy, x, sums, gamma -> dsums[...]",
       .inputs = {4},
       .attrs = ScaleAttrs(),
       .infer = InferRmsScaleGradSums,
       .signatures = RmsScaleGradSumsRows,
       .flops = PerElement(3),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kWide},
       .samples = RmsScaleGradSumsSamples},
      {.kind = "rms_scale_grad_weight",
       .usage = "dy, x, sums -> dgamma[n...]",
       .inputs = {3},
       .attrs = ScaleAttrs(),
       .infer = InferRmsScaleGradWeight,
       .signatures = RmsScaleGradWeightRows,
       .flops = PerElement(3),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kWide},
       .cuda_workspace = RmsScaleGradWeightOnCuda,
       .samples = RmsScaleGradWeightSamples},
  };
}

}  // namespace oneflow
