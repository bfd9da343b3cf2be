// dispatch: x[b, t, H], ids, slots -> y[G, b, r, C, H]: tokens in the queues of the experts that
// they chose (route.cc), times the weights of the choices if there are some; slots that no token
// takes are 0. combine: y, ids, slots -> [b, t, H]: for each token the sum of its slots, in the
// order of its choices, times their weights; a choice that was dropped adds nothing. Each is the
// gradient of the other; that of the weights is combine_grad.
//
// Where groups of experts lie on devices, tokens meet them by one exchange of y: from S(1) or S(2),
// as tokens lie, to S(0).
#include "oneflow_core/op/experts.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::StatusOr<RouteDims> CheckRoute(const OpView& v, const Tensor& ids, const Tensor& slots,
                                     const Tensor& tokens) {
  RETURN_IF_ERROR(ExpectChoices(ids, slots, tokens));
  return FindRouteDims(v, ids.shape, AttrInt(v.op, "experts"), ids.shape.dims[2]);
}

absl::Status ExpectWeights(const Tensor& w, const Tensor& ids, DType of) {
  RETURN_IF_ERROR(ExpectDims("w", w, ids.shape.dims, "that of " + Describe("ids", ids)));
  if (w.dtype == AccumulationType(of)) return absl::OkStatus();
  return Mismatch(Describe("w", w) + " is not of the type in which sums are made");
}

absl::Status ExpectSlots(const RouteDims& d, const Tensor& y, const Tensor& ids) {
  if (y.shape.rank() == 5 && Part(y.shape, 0, 4).dims == SlotShape(d, ids.shape).dims) {
    return absl::OkStatus();
  }
  return Mismatch(Describe("y", y) +
                  " must be [groups, batch, runs, slots, width], with the first " + "four " +
                  ToString(SlotShape(d, ids.shape).dims));
}

// --- dispatch ---

Specs InferDispatch(const OpView& v) {
  const Tensor &x = v.in(0), &ids = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  if (x.shape.rank() != 3) return Mismatch(Describe("x", x) + " must be [batch, seq, width]");
  ASSIGN_OR_RETURN(const RouteDims d, CheckRoute(v, ids, v.in(2), x));
  if (v.n_inputs() > 3) RETURN_IF_ERROR(ExpectWeights(v.in(3), ids, x.dtype));
  return std::vector<OutputSpec>{{Join(SlotShape(d, x.shape), Part(x.shape, 2, 3)), x.dtype}};
}

// `tokens` of x, `choices` of ids, slots and weights, `slots` of y.
struct DispatchLayouts {
  Sbp tokens, choices, slots;
  int64_t divided = 0;
};

Rows DispatchRows(const OpView& v) {
  Rows rows;
  const auto add = [&](const DispatchLayouts& l) {
    Signature row{std::vector<Sbp>(v.n_inputs(), l.choices), {l.slots}, l.divided};
    row.in[0] = l.tokens;
    rows.push_back(std::move(row));
  };
  add({B(), B(), B()});
  add({S(0), S(0), S(1)});
  add({S(2), B(), S(4)});
  add({P(), B(), P()});
  const int64_t runs = CountRuns(v.op, v.in_dims(1)[1]);
  if (runs > 1) add({S(1), S(1), S(2), runs});
  if (AttrInt(v.op, "groups", 1) > 1) add({B(), B(), S(0)});  // a device makes those of its groups
  return rows;
}

InputGrads DispatchGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId dy = g.output_grads[0];
  std::vector<TensorId> grads(op.inputs.size(), -1);
  std::vector<TensorId> inputs = op.inputs;
  inputs[0] = dy;
  const AttrMap& attrs = op.attrs;
  if (g.needs_grad[0]) grads[0] = AddGradient(g, "combine", ".dx", inputs, attrs);
  if (op.inputs.size() > 3 && g.needs_grad[3]) {
    grads[3] = AddGradient(g, "combine_grad", ".dw", {op.inputs[0], dy, op.inputs[1], op.inputs[2]},
                           attrs);
  }
  return grads;
}

// --- combine ---

Specs InferCombine(const OpView& v) {
  const Tensor &y = v.in(0), &ids = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"y"}, {0}));
  ASSIGN_OR_RETURN(const RouteDims d, CheckRoute(v, ids, v.in(2), ids));
  RETURN_IF_ERROR(ExpectSlots(d, y, ids));
  if (v.n_inputs() > 3) RETURN_IF_ERROR(ExpectWeights(v.in(3), ids, y.dtype));
  return std::vector<OutputSpec>{{Join(Part(ids.shape, 0, 2), Part(y.shape, 4, 5)), y.dtype}};
}

Rows CombineRows(const OpView& v) {
  Rows rows = DispatchRows(v);
  for (Signature& row : rows) std::swap(row.in[0], row.out[0]);
  // A device has the slots of its groups.
  for (Signature& row : rows) {
    if (row.in[0] == S(0)) row.out[0] = P();
  }
  return rows;
}

InputGrads CombineGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId dout = g.output_grads[0];
  std::vector<TensorId> grads(op.inputs.size(), -1);
  std::vector<TensorId> inputs = op.inputs;
  inputs[0] = dout;
  const AttrMap attrs = op.attrs;
  if (g.needs_grad[0]) grads[0] = AddGradient(g, "dispatch", ".dy", inputs, attrs);
  if (op.inputs.size() > 3 && g.needs_grad[3]) {
    grads[3] = AddGradient(g, "combine_grad", ".dw",
                           {dout, op.inputs[0], op.inputs[1], op.inputs[2]}, attrs);
  }
  return grads;
}

// --- combine_grad: dout[b, t, H], y[G, b, r, C, H], ids, slots -> dw[b, t, k] ---

Specs InferCombineGrad(const OpView& v) {
  const Tensor &dout = v.in(0), &y = v.in(1), &ids = v.in(2);
  RETURN_IF_ERROR(ExpectFloat(v, {"dout", "y"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"dout", "y"}, 0, 1));
  ASSIGN_OR_RETURN(const RouteDims d, CheckRoute(v, ids, v.in(3), dout));
  RETURN_IF_ERROR(ExpectSlots(d, y, ids));
  if (dout.shape.rank() != 3 || dout.shape.dims[2] != y.shape.dims[4]) {
    return Mismatch(Describe("dout", dout) + " and " + Describe("y", y) + " differ in width");
  }
  return std::vector<OutputSpec>{{ids.shape, AccumulationType(y.dtype)}};
}

Rows CombineGradRows(const OpView& v) {
  Rows rows = {AllB(v),
               {{S(0), S(1), S(0), S(0)}, {S(0)}},
               {{S(2), S(4), B(), B()}, {P()}},
               {{P(), B(), B(), B()}, {P()}},
               {{B(), P(), B(), B()}, {P()}}};
  const int64_t runs = CountRuns(v.op, v.in_dims(0)[1]);
  if (runs > 1) rows.push_back({{S(1), S(2), S(1), S(1)}, {S(1)}, /*divided=*/runs});
  if (AttrInt(v.op, "groups", 1) > 1) rows.push_back({{B(), S(0), B(), B()}, {P()}});
  return rows;
}

// --- Samples ---

// What `inputs` makes of routed tokens: wide and narrow ones.
std::function<Samples(const SampleSizes&)> EachRoute(
    std::vector<SampleTensor> (*inputs)(const RouteSample&, int64_t width)) {
  return [inputs](const SampleSizes& s) {
    Samples samples;
    for (const RouteSample& route : RouteSamples(s)) {
      samples.push_back({inputs(route, s.c), route.attrs});
      for (SampleTensor& tensor : samples.emplace_back(samples.back()).in) {
        // Weights stay wide: they are as long as the choices.
        if (tensor.ids == 0 && tensor.dims != route.ids.dims) tensor.narrow = true;
      }
    }
    return samples;
  };
}

}  // namespace

std::vector<OpDef> DispatchOps() {
  std::vector<AttrDef> attrs = RouteAttrs();
  attrs.push_back({"experts", AttrType::kInt, true});
  const std::vector<Precision> precision = {Precision::kNarrow, Precision::kEither,
                                            Precision::kEither, Precision::kWide};
  return {{.kind = "dispatch",
           .usage = "x[b, t, H], ids[b, t, k], slots[b, t, k], (w[b, t, k]) -> y[G, b, r, C, H]",
           .inputs = {3, 4},
           .attrs = attrs,
           .infer = InferDispatch,
           .signatures = DispatchRows,
           .gradient = DispatchGradient,
           .flops = [](const OpView& v) { return static_cast<double>(v.out(0).shape.elements()); },
           .kernel_class = KernelClass::kGather,
           .overwrites = true,
           .precision = precision,
           .samples = EachRoute([](const RouteSample& r, int64_t width) {
             std::vector<SampleTensor> in = {r.Tokens(width), r.ids, r.slots};
             if (r.dims.groups > 1) in.push_back({r.ids.dims});
             return in;
           })},
          {.kind = "combine",
           .usage = "y[G, b, r, C, H], ids[b, t, k], slots[b, t, k], (w[b, t, k]) -> [b, t, H]",
           .inputs = {3, 4},
           .attrs = attrs,
           .infer = InferCombine,
           .signatures = CombineRows,
           .gradient = CombineGradient,
           .flops =
               [](const OpView& v) {
                 return 2.0 * static_cast<double>(v.out(0).shape.elements() * v.in_dims(1)[2]);
               },
           .kernel_class = KernelClass::kGather,
           .overwrites = true,
           .precision = precision,
           .samples = EachRoute([](const RouteSample& r, int64_t width) {
             std::vector<SampleTensor> in = {r.Slots(width), r.ids, r.slots};
             if (r.dims.groups > 1) in.push_back({r.ids.dims});
             return in;
           })},
          {.kind = "combine_grad",
           .usage = "dout[b, t, H], y[G, b, r, C, H], ids[b, t, k], slots[b, t, k] -> dw[b, t, k]",
           .inputs = {4},
           .attrs = attrs,
           .infer = InferCombineGrad,
           .signatures = CombineGradRows,
           .flops =
               [](const OpView& v) {
                 return 2.0 * static_cast<double>(v.in(0).shape.elements() * v.in_dims(2)[2]);
               },
           .kernel_class = KernelClass::kGather,
           .overwrites = true,
           .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kEither},
           .samples = EachRoute([](const RouteSample& r, int64_t width) {
             return std::vector<SampleTensor>{r.Tokens(width), r.Slots(width), r.ids, r.slots};
           })}};
}

}  // namespace oneflow
