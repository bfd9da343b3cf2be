// Ops that work element by element on tensors of one shape.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// All inputs have the shape and dtype of the first, and so has the output.
Specs InferAlike(const OpView& v) {
  std::vector<std::string> roles;
  for (int i = 0; i < v.n_inputs(); ++i) roles.push_back("input " + std::to_string(i));
  RETURN_IF_ERROR(ExpectFloat(v, roles));
  for (int i = 1; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(
        ExpectDims(roles[i], v.in(i), v.in_dims(0), "that of " + Describe(roles[0], v.in(0))));
  }
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

double SumFlops(const OpView& v) {
  return static_cast<double>(v.n_inputs() - 1) * static_cast<double>(v.in(0).shape.elements());
}

// The gradient of a sum is the gradient of each term: no op is needed.
InputGrads SumGradient(GradientContext& g) {
  std::vector<TensorId> grads;
  for (const bool needed : g.needs_grad) grads.push_back(needed ? g.output_grads[0] : -1);
  return grads;
}

InputGrads GeluGradient(GradientContext& g) {
  if (!g.needs_grad[0]) return std::vector<TensorId>{-1};
  const TensorId x = g.graph.ops[g.op].inputs[0];
  return std::vector<TensorId>{AddGradient(g, "gelu_grad", ".dx", {g.output_grads[0], x})};
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  return {
      {.kind = "add",
       .usage = "a, b -> a + b",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = InferAlike,
       .signatures = LinearAlikeRows,
       .gradient = SumGradient,
       .flops = SumFlops},
      {.kind = "add_n",
       .usage = "x1, x2, ... -> their sum",
       .min_inputs = 1,
       .max_inputs = -1,
       .infer = InferAlike,
       .signatures = LinearAlikeRows,
       .gradient = SumGradient,
       .flops = SumFlops},
      // Gradients of the uses of a variable: each is reduced before it is summed, so never P.
      {.kind = "sum_uses",
       .usage = "g1, g2, ... -> their sum",
       .min_inputs = 1,
       .max_inputs = -1,
       .infer = InferAlike,
       .signatures = AlikeRows,
       .flops = SumFlops},
      {.kind = "gelu",
       .usage = "x -> y",
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = InferAlike,
       .signatures = AlikeRows,
       .gradient = GeluGradient,
       .flops = PerElement(10)},
      {.kind = "gelu_grad",
       .usage = "dy, x -> dx",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = InferAlike,
       .signatures = AlikeRows,
       .flops = PerElement(18)},
  };
}

}  // namespace oneflow
