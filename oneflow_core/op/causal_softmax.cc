// causal_softmax: x[..., t, t] -> y. Row i of a matrix is the softmax of its first i + 1 elements,
// times `scale`, and zero behind them: position i sees positions 0 .. i. Its gradient reads y, so x
// need not be kept.
#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::Status ExpectSquare(std::string_view role, const Tensor& x) {
  RETURN_IF_ERROR(ExpectRank(role, x, 3));
  const int rank = x.shape.rank();
  if (x.shape.dims[rank - 1] == x.shape.dims[rank - 2]) return absl::OkStatus();
  return Mismatch(Describe(role, x) + " must have scores of all positions for all positions",
                  "make its last two dimensions equal");
}

Specs InferSoftmax(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectSquare("x", v.in(0)));
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

Specs InferSoftmaxGrad(const OpView& v) {
  const std::vector<std::string> roles = {"dy", "y"};
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 1));
  RETURN_IF_ERROR(ExpectSquare("y", v.in(1)));
  RETURN_IF_ERROR(ExpectDims("dy", v.in(0), v.in_dims(1), "that of " + Describe("y", v.in(1))));
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

// Matrices are independent; of a row that is cut off nobody knows how much it sees.
Rows SoftmaxRows(const OpView& v) { return LeadRows(v, v.in(0).shape.rank() - 2); }

InputGrads SoftmaxGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  return std::vector<TensorId>{AddGradient(g, "causal_softmax_grad", ".dx",
                                           {g.output_grads[0], op.outputs[0]},
                                           {{"scale", AttrDouble(op, "scale", 1)}})};
}

int64_t CausalSoftmaxCpuWorkspace(const LocalOp& op, int threads) {
  return threads * SoftmaxWorkspacePerThread(op.in[0]);
}

Samples SoftmaxSamples(const SampleSizes& s) {
  Samples samples = AlsoNarrow({{{{{s.b, s.heads, s.t, s.t}, -3, 3}}, {{"scale", 0.5}}}});
  if (s.large) samples.push_back({{{{1, 2, 300, 300}, -2, 2}}, {{"scale", 0.125}}});
  return samples;
}

Samples SoftmaxGradSamples(const SampleSizes& s) {
  const Dims dims{s.b, s.heads, s.t, s.t};
  Samples samples = AlsoNarrow({{{{dims, -3, 3}, {dims, 0, 1}}, {{"scale", 0.5}}}});
  if (s.large) {
    samples.push_back({{{{1, 2, 300, 300}}, {{1, 2, 300, 300}, 0, 1}}, {{"scale", 0.125}}});
  }
  return samples;
}

}  // namespace

std::vector<OpDef> CausalSoftmaxOps() {
  return {{.kind = "causal_softmax",
           .usage = "x[..., t, t] -> y[..., t, t]",
           .inputs = {1},
           .attrs = {{"scale", AttrType::kDouble}},
           .infer = InferSoftmax,
           .signatures = SoftmaxRows,
           .gradient = SoftmaxGradient,
           .flops = PerElement(5),
           .kernel_class = KernelClass::kRows,
           .positions = Positions::kWhole,
           .precision = {Precision::kNarrow},
           .cpu_workspace = CausalSoftmaxCpuWorkspace,
           .samples = SoftmaxSamples},
          {.kind = "causal_softmax_grad",
           .usage = "dy, y -> dx",
           .inputs = {2},
           .attrs = {{"scale", AttrType::kDouble}},
           .infer = InferSoftmaxGrad,
           .signatures = SoftmaxRows,
           .flops = PerElement(4),
           .kernel_class = KernelClass::kRows,
           .precision = {Precision::kNarrow},
           .samples = SoftmaxGradSamples}};
}

}  // namespace oneflow
