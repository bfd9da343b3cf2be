// dropout: x -> y. Each element is 0 with probability `rate`, else x / (1 - rate). Which ones is a
// function of (seed, step, mask, element of the step's whole tensor), never of devices or micro-
// batches: see actor_runtime/kernel/dropout.h. Programs that do not train have none: the pass
// remove_dropout.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Specs InferDropout(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRate(v.op, "rate"));
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

// The mask is not stored: the gradient makes the forward op's once more.
InputGrads DropoutGradient(GradientContext& g) {
  if (!g.needs_grad[0]) return std::vector<TensorId>{-1};
  const Op& op = g.graph.ops[g.op];
  return std::vector<TensorId>{
      AddGradient(g, "dropout", ".dx", {g.output_grads[0]},
                  {{"rate", AttrDouble(op, "rate")}, {"mask", MaskOf(op)}})};
}

}  // namespace

std::vector<OpDef> DropoutOps() {
  return {{.kind = "dropout",
           .usage = "x -> y",
           .min_inputs = 1,
           .max_inputs = 1,
           .attrs = {{"rate", AttrType::kDouble, true}, {"mask", AttrType::kString}},
           .infer = InferDropout,
           .signatures = AlikeRows,
           .gradient = DropoutGradient,
           .flops = PerElement(1)}};
}

}  // namespace oneflow
