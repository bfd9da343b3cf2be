// Ops that work element by element on tensors of one shape.
#include <numeric>

#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

std::vector<std::string> MakeRoles(const OpView& v) {
  std::vector<std::string> roles;
  for (int i = 0; i < v.n_inputs(); ++i) roles.push_back("input " + std::to_string(i));
  return roles;
}

// All inputs have the shape of the first, and so has the output. Those listed in `narrow` may be
// bf16.
Specs InferShaped(const OpView& v, DType dtype, const std::vector<int>& narrow) {
  const std::vector<std::string> roles = MakeRoles(v);
  RETURN_IF_ERROR(ExpectFloat(v, roles, narrow));
  for (int i = 1; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(
        ExpectDims(roles[i], v.in(i), v.in_dims(0), "that of " + Describe(roles[0], v.in(0))));
  }
  return std::vector<OutputSpec>{{v.in(0).shape, dtype}};
}

Specs InferSumUses(const OpView& v) { return InferShaped(v, v.in(0).dtype, {}); }

// All wide, or all narrow.
Specs InferAddN(const OpView& v) {
  std::vector<int> all(v.n_inputs());
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(std::vector<OutputSpec> sum, InferShaped(v, v.in(0).dtype, all));
  for (const int i : all) RETURN_IF_ERROR(ExpectSameType(v, MakeRoles(v), 0, i));
  return sum;
}

// A summand of a wide residual stream may be narrow; a summand of a narrow one is.
Specs InferAdd(const OpView& v) {
  if (v.in(0).dtype == DType::kBF16) return InferAddN(v);
  return InferShaped(v, v.in(0).dtype, {1});
}

Specs InferGelu(const OpView& v) { return InferShaped(v, v.in(0).dtype, {0}); }

Specs InferSoftCap(const OpView& v) {
  RETURN_IF_ERROR(ExpectPositive(v.op, "cap"));
  return v.n_inputs() == 1 ? InferGelu(v) : InferAddN(v);
}

Specs InferGeluGrad(const OpView& v) {
  RETURN_IF_ERROR(ExpectSameType(v, {"dy", "x"}, 0, 1));
  return InferShaped(v, v.in(0).dtype, {0, 1});
}

Specs InferCast(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  const DType from = v.in(0).dtype;
  ASSIGN_OR_RETURN(const DType to, ParseDType(AttrString(v.op, "dtype")));
  if (from == DType::kF64) return std::vector<OutputSpec>{{v.in(0).shape, from}};
  if (from == to || AccumulationType(to) != DType::kF32) {
    return Mismatch(Describe("x", v.in(0)) + " cannot become " + std::string(Name(to)),
                    "cast f32 to bf16 or bf16 to f32");
  }
  return std::vector<OutputSpec>{{v.in(0).shape, to}};
}

double SumFlops(const OpView& v) {
  return static_cast<double>(v.n_inputs() - 1) * static_cast<double>(v.in(0).shape.elements());
}

// The gradient of a sum is the gradient of each term: no op is needed.
InputGrads SumGradient(GradientContext& g) {
  return std::vector<TensorId>(g.needs_grad.size(), g.output_grads[0]);
}

SampleTensor Block(const SampleSizes& s, double low = -1, double high = 1) {
  return {{s.b, s.t, s.c}, low, high};
}

InputGrads MultiplyGradient(GradientContext& g) {
  return std::vector<TensorId>{AddGradient(g, "multiply", ".dx", {g.output_grads[0]},
                                           {{"factor", AttrDouble(g.graph.ops[g.op], "factor")}})};
}

InputGrads GeluGradient(GradientContext& g) {
  const TensorId x = g.graph.ops[g.op].inputs[0];
  return std::vector<TensorId>{AddGradient(g, "gelu_grad", ".dx", {g.output_grads[0], x})};
}

InputGrads SoftCapGradient(GradientContext& g) {
  const Op& op = g.graph.ops[g.op];
  return std::vector<TensorId>{
      AddGradient(g, "soft_cap_grad", ".dx", {g.output_grads[0], op.outputs[0]}, op.attrs)};
}

Samples SoftCapSamples(const SampleSizes& s) {
  return AlsoNarrow({{{Block(s, -40, 40)}, {{"cap", 15.0}}}});
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  return {
      {.kind = "add",
       .usage = "a, b -> a + b",
       .inputs = {2},
       .infer = InferAdd,
       .signatures = LinearAlikeRows,
       .gradient = SumGradient,
       .flops = SumFlops,
       .precision = {Precision::kStream, Precision::kToStream},
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor x = Block(s), narrow = x.Narrow();
         return {{{x, x}}, {{x, narrow}}, {{narrow, narrow}}};
       }},
      // What an adapter adds to its product: no sum of the residual stream.
      {.kind = "add_delta",
       .usage = "y, delta -> y + delta",
       .inputs = {2},
       .infer = InferAddN,
       .signatures = LinearAlikeRows,
       .gradient = SumGradient,
       .flops = SumFlops,
       .precision = {Precision::kNarrow},
       .exact = true,
       .samples =
           [](const SampleSizes& s) {
             return AlsoNarrow({{{Block(s), Block(s)}}});
           }},
      {.kind = "multiply",
       .usage = "x -> factor * x",
       .inputs = {1},
       .attrs = {{"factor", AttrType::kDouble, true}},
       .infer = InferGelu,
       .signatures = LinearAlikeRows,
       .gradient = MultiplyGradient,
       .flops = PerElement(1),
       .precision = {Precision::kNarrow},
       .samples =
           [](const SampleSizes& s) {
             return AlsoNarrow({{{Block(s)}, {{"factor", 0.375}}}});
           }},
      {.kind = "add_n",
       .usage = "x1, x2, ... -> their sum",
       .inputs = {1, kAnyNumber},
       .infer = InferAddN,
       .signatures = LinearAlikeRows,
       .gradient = SumGradient,
       .flops = SumFlops,
       .precision = {Precision::kStream},
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor x = Block(s);
         return AlsoNarrow({{{x, x, x}}});
       }},
      // Gradients of the uses of a variable: each is reduced before it is summed, so never P.
      {.kind = "sum_uses",
       .usage = "g1, g2, ... -> their sum",
       .inputs = {1, kAnyNumber},
       .infer = InferSumUses,
       .signatures = AlikeRows,
       .flops = SumFlops,
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{Block(s), Block(s)}}};
       }},
      {.kind = "gelu",
       .usage = "x -> y",
       .inputs = {1},
       .infer = InferGelu,
       .signatures = AlikeRows,
       .gradient = GeluGradient,
       .flops = PerElement(kGeluFlops),
       .precision = {Precision::kNarrow},
       .selective = true,
       .samples = [](const SampleSizes& s) { return AlsoNarrow({{{Block(s, -4, 4)}}}); }},
      {.kind = "gelu_grad",
       .usage = "dy, x -> dx",
       .inputs = {2},
       .infer = InferGeluGrad,
       .signatures = AlikeRows,
       .flops = PerElement(kGeluGradFlops),
       .precision = {Precision::kNarrow},
       .samples =
           [](const SampleSizes& s) {
             return AlsoNarrow({{{Block(s), Block(s, -4, 4)}}});
           }},
      {.kind = "soft_cap",
       .usage = "x -> cap * tanh(x / cap)",
       .inputs = {1},
       .attrs = {{"cap", AttrType::kDouble, true}},
       .infer = InferSoftCap,
       .signatures = AlikeRows,
       .gradient = SoftCapGradient,
       .flops = PerElement(kSoftCapFlops),
       .precision = {Precision::kNarrow},
       .selective = true,
       .samples = SoftCapSamples},
      {.kind = "soft_cap_grad",
       .usage = "dy, y -> dx",
       .inputs = {2},
       .attrs = {{"cap", AttrType::kDouble, true}},
       .infer = InferSoftCap,
       .signatures = AlikeRows,
       .flops = PerElement(kSoftCapGradFlops),
       .precision = {Precision::kNarrow},
       .samples =
           [](const SampleSizes& s) {
             return AlsoNarrow({{{Block(s), Block(s, -15, 15)}, {{"cap", 15.0}}}});
           }},
      // Not linear where it rounds, so never P.
      {.kind = "cast",
       .usage = "x -> x in another type",
       .inputs = {1},
       .attrs = {{"dtype", AttrType::kString, true}},
       .infer = InferCast,
       .signatures = AlikeRows,
       .flops = PerElement(1),
       .instead = "compile with --precision=bf16",
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{Block(s)}, {{"dtype", std::string("bf16")}}},
                 {{Block(s).Narrow()}, {{"dtype", std::string("f32")}}}};
       }},
  };
}

}  // namespace oneflow
