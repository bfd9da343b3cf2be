// Ops that change the layout of a tensor and not its value. insert_boxing makes them; their tables
// say what each may do on one mesh axis, and leave every other axis as it is.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

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

// The rows of an op that may turn `from` into `to` where `changes(from, to)`.
std::function<Rows(const OpView&)> RowsWhere(bool (*changes)(Sbp from, Sbp to)) {
  return [changes](const OpView& v) {
    Rows rows;
    const std::vector<Sbp> all = AllSbp(v);
    for (const Sbp sbp : all) rows.push_back({{sbp}, {sbp}});
    for (const Sbp from : all) {
      for (const Sbp to : all) {
        if (from != to && changes(from, to)) rows.push_back({{from}, {to}});
      }
    }
    return rows;
  };
}

// The logical tensor is the same, so is its gradient.
InputGrads SameGradient(GradientContext& g) {
  return std::vector<TensorId>{g.needs_grad[0] ? g.output_grads[0] : -1};
}

// `local`: a kernel does it; all others are exchanges.
OpDef Boxing(std::string kind, std::string usage, bool local, bool (*changes)(Sbp from, Sbp to)) {
  return {.kind = std::move(kind),
          .usage = std::move(usage),
          .min_inputs = 1,
          .max_inputs = 1,
          // For the reader of a printed graph: which mesh axis, from and to which dimension.
          .attrs = {{"axis", AttrType::kString},
                    {"dim_from", AttrType::kInt},
                    {"dim_to", AttrType::kInt}},
          .infer = InferSame,
          .signatures = RowsWhere(changes),
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
  return {
      Boxing("slice", "x -> x (B -> S, local)", true,
             [](Sbp from, Sbp to) { return from.broadcast() && to.split(); }),
      Boxing("all_gather", "x -> x (S -> B)", false,
             [](Sbp from, Sbp to) { return from.split() && to.broadcast(); }),
      Boxing("reduce_scatter", "x -> x (P -> S)", false,
             [](Sbp from, Sbp to) { return from.partial() && to.split(); }),
      Boxing("all_reduce", "x -> x (P -> B)", false,
             [](Sbp from, Sbp to) { return from.partial() && to.broadcast(); }),
      // On one axis S(i) -> S(j); over several axes at once whatever is not partial.
      Boxing("all_to_all", "x -> x (S(i) -> S(j))", false,
             [](Sbp from, Sbp to) { return !from.partial() && !to.partial(); }),
      Boxing("zero_fill", "x -> x (B or S -> P or Pmax)", true,
             [](Sbp from, Sbp to) { return !from.partial() && to.partial(); }),
      Boxing("transfer", "x -> x (stage to stage)", false, [](Sbp, Sbp) { return false; }),
  };
}

}  // namespace oneflow
