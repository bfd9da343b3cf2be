// Ops that change the layout of a tensor and not its value: one for each primitive. insert_boxing
// makes them; their tables say what each may do on one mesh axis, and leave every other as it is.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

Specs InferSame(const OpView& v) { return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}}; }

// B, every S(i), P, Pmax of input 0.
std::vector<Sbp> AllSbp(const OpView& v) {
  std::vector<Sbp> all = {B()};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) all.push_back(S(i));
  all.push_back(P());
  all.push_back(PMax());
  return all;
}

Rows MakeBoxingRows(const Primitive& primitive, const OpView& v) {
  Rows rows;
  const std::vector<Sbp> all = AllSbp(v);
  for (const Sbp sbp : all) rows.push_back({{sbp}, {sbp}});
  for (const Sbp from : all) {
    for (const Sbp to : all) {
      if (from != to && primitive.Changes(from, to, /*alone=*/false))
        rows.push_back({{from}, {to}});
    }
  }
  return rows;
}

// The logical tensor is the same, so is its gradient.
InputGrads SameGradient(GradientContext& g) { return g.output_grads; }

OpDef MakeBoxing(const Primitive& primitive) {
  // A kernel does it; all others are exchanges.
  const bool local = primitive.members == Members::kAlone;
  return {.kind = std::string(primitive.kind),
          .usage = std::string(primitive.usage),
          .inputs = {1},
          // For the reader of a printed graph: which mesh axis, from and to which dimension.
          .attrs = {{"axis", AttrType::kString},
                    {"dim_from", AttrType::kInt},
                    {"dim_to", AttrType::kInt}},
          .infer = InferSame,
          .signatures = [&primitive](const OpView& v) { return MakeBoxingRows(primitive, v); },
          .gradient = SameGradient,
          .flops = NoFlops,
          .on_cpu = local,
          .on_cuda = local,
          .instead = "set layouts with `sbp` and `stage`",
          .samples = [](const SampleSizes& s) -> Samples {
            return {{{{{s.t, s.c}}}}};
          }};
}

}  // namespace

std::vector<OpDef> BoxingOps() {
  std::vector<OpDef> ops;
  for (const Primitive& primitive : Primitives()) ops.push_back(MakeBoxing(primitive));
  return ops;
}

}  // namespace oneflow
