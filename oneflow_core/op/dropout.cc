// dropout: x -> y. Each element is 0 with probability `rate`, else x / (1 - rate). Which ones is a
// function of (seed, step, mask, element of the step's whole tensor), never of devices or micro-
// batches: see actor_runtime/kernel/dropout.h. Programs that do not train have none: the pass
// remove_dropout. stored_dropout does the same and keeps the mask, a byte an element, for its
// gradient to read: bytes for random numbers.
#include "oneflow_core/op/op_tables.h"
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
  const Op& op = g.graph.ops[g.op];
  return std::vector<TensorId>{
      AddGradient(g, "dropout", ".dx", {g.output_grads[0]},
                  {{"rate", AttrDouble(op, "rate")}, {"mask", MaskName(op)}})};
}

Specs InferStored(const OpView& v) {
  ASSIGN_OR_RETURN(std::vector<OutputSpec> outputs, InferDropout(v));
  outputs.push_back({v.in(0).shape, DType::kU8});
  return outputs;
}

InputGrads StoredGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "the mask of a stored_dropout"));
  const Op op = g.graph.ops[g.op];
  return std::vector<TensorId>{AddGradient(g, "stored_dropout_grad", ".dx",
                                           {g.output_grads[0], op.outputs[1]},
                                           {{"rate", AttrDouble(op, "rate")}})};
}

Specs InferStoredGrad(const OpView& v) {
  const Tensor &dy = v.in(0), &mask = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy"}, {0}));
  RETURN_IF_ERROR(ExpectRate(v.op, "rate"));
  if (mask.dtype != DType::kU8) {
    return Mismatch(Describe("mask", mask) + " must be of type u8",
                    "it is the second output of a stored_dropout");
  }
  RETURN_IF_ERROR(ExpectDims("mask", mask, dy.shape.dims, "that of " + Describe("dy", dy)));
  return std::vector<OutputSpec>{{dy.shape, dy.dtype}};
}

// Operations of an element: Philox4x32-10 makes four words in ten rounds of two products, four xors
// and two sums of keys; one comparison and one product use a word.
constexpr double kDropoutFlops = 10 * 8 / 4.0 + 2;

Samples DropoutSamples(const SampleSizes& s) {
  return AlsoNarrow({{{{{s.b, s.t, s.c}}}, {{"rate", 0.3}}}});
}

}  // namespace

std::vector<OpDef> DropoutOps() {
  return {{.kind = "dropout",
           .usage = "x -> y",
           .inputs = {1},
           .attrs = {{"rate", AttrType::kDouble, true}, {"mask", AttrType::kString}},
           .infer = InferDropout,
           .signatures = AlikeRows,
           .gradient = DropoutGradient,
           .flops = PerElement(kDropoutFlops),
           .random = true,
           .precision = {Precision::kEither},
           .selective = true,
           .exact = true,
           .samples = DropoutSamples},
          {.kind = "stored_dropout",
           .usage = "x -> y, mask",
           .inputs = {1},
           .outputs = 2,
           .attrs = {{"rate", AttrType::kDouble, true}, {"mask", AttrType::kString}},
           .infer = InferStored,
           .signatures = AlikeRows,
           .gradient = StoredGradient,
           .flops = PerElement(kDropoutFlops),
           .overwrites = true,
           .random = true,
           .precision = {Precision::kEither},
           .exact = true,
           .samples = DropoutSamples},
          {.kind = "stored_dropout_grad",
           .usage = "dy, mask -> dx",
           .inputs = {2},
           .attrs = {{"rate", AttrType::kDouble, true}},
           .infer = InferStoredGrad,
           .signatures = AlikeRows,
           .flops = PerElement(1),
           .precision = {Precision::kEither, Precision::kWide},
           .exact = true,
           .samples = [](const SampleSizes& s) -> Samples {
             const SampleTensor dy{{s.b, s.t, s.c}}, mask = SampleTensor::Mask({s.b, s.t, s.c});
             return AlsoNarrow({{{dy, mask}, {{"rate", 0.3}}}});
           }}};
}

}  // namespace oneflow
