// gated: gate, up -> act(gate) * up, element by element: the middle of a gated MLP. With
// "clamped_silu", that of gpt-oss, (up + 1) * gate * sigmoid(1.702 gate) of a gate of at most 7 and
// an up of -7 to 7, without gradients at a limit and beyond it.
#include <utility>

#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// All inputs are of one shape and type, and so is each output.
Specs InferAlike(const OpView& v, const std::vector<std::string>& roles, int outputs) {
  RETURN_IF_ERROR(ExpectActivation(v.op));
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1, 2}));
  for (int i = 1; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
    RETURN_IF_ERROR(
        ExpectDims(roles[i], v.in(i), v.in_dims(0), "that of " + Describe(roles[0], v.in(0))));
  }
  return std::vector<OutputSpec>(outputs, {v.in(0).shape, v.in(0).dtype});
}

Specs InferGated(const OpView& v) { return InferAlike(v, {"gate", "up"}, 1); }
Specs InferGatedGrad(const OpView& v) { return InferAlike(v, {"dy", "gate", "up"}, 2); }

InputGrads GatedGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId dgate = AddGradient(g, "gated_grad", ".dx",
                                     {g.output_grads[0], op.inputs[0], op.inputs[1]}, op.attrs, 2);
  return g.graph.Producer(dgate).outputs;
}

Samples GatedSamples(const SampleSizes& s) {
  Samples samples;
  for (AttrMap& attrs : ActivationAttrs()) {
    samples.push_back({{{{s.b, s.t, s.c}, -4, 4}, {{s.b, s.t, s.c}}}, attrs});
    // Beyond the clamps, in an activation of experts' slots.
    const Dims slots = {2, s.b, s.t, s.c};
    samples.push_back({{{slots, -10, 10}, {slots, -10, 10}}, std::move(attrs)});
  }
  return AlsoNarrow(samples);
}

Samples GatedGradSamples(const SampleSizes& s) {
  Samples samples = GatedSamples(s);
  for (OpSample& sample : samples) sample.in.insert(sample.in.begin(), sample.in[1]);
  return samples;
}

}  // namespace

std::vector<OpDef> GatedOps() {
  return {{.kind = "gated",
           .usage = "gate, up -> act(gate) * up",
           .inputs = {2},
           .attrs = {{"activation", AttrType::kString, true}},
           .infer = InferGated,
           .signatures = AlikeRows,
           .gradient = GatedGradient,
           .flops = [](const OpView& v) { return PerElement(GatedFlops(v.op))(v); },
           .precision = {Precision::kNarrow},
           .selective = true,
           .samples = GatedSamples},
          {.kind = "gated_grad",
           .usage = "dy, gate, up -> dgate, dup",
           .inputs = {3},
           .outputs = 2,
           .attrs = {{"activation", AttrType::kString, true}},
           .infer = InferGatedGrad,
           .signatures = AlikeRows,
           .flops = [](const OpView& v) { return PerElement(GatedGradFlops(v.op))(v); },
           .precision = {Precision::kNarrow},
           .samples = GatedGradSamples}};
}

}  // namespace oneflow
