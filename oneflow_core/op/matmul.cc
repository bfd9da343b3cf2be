// matmul: a[..., m, k] b[k, n] -> [..., m, n]; its weight-like gradient sums over all leading dims.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// Which dimension is which. Transposed, a is [k, m] and b is [n, k].
struct MatmulDims {
  int a_m, a_k, b_k, b_n;
};

MatmulDims MatmulGeometry(const OpView& v) {
  const int rank = v.in(0).shape.rank();
  const bool ta = AttrBool(v.op, "transpose_a"), tb = AttrBool(v.op, "transpose_b");
  return {ta ? 1 : rank - 2, ta ? 0 : rank - 1, tb ? 1 : 0, tb ? 0 : 1};
}

Specs InferMatmul(const OpView& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"a", "b"}));
  RETURN_IF_ERROR(ExpectRank("a", a, 2));
  if (AttrBool(v.op, "transpose_a") && a.shape.rank() != 2) {
    return Mismatch(Describe("a", a) + " cannot be transposed", "transpose_a needs a[k, m]");
  }
  if (b.shape.rank() != 2) {
    return Mismatch(Describe("b", b) + " must have 2 dimensions", "use `linear` for more");
  }
  const MatmulDims d = MatmulGeometry(v);
  if (a.shape.dims[d.a_k] != b.shape.dims[d.b_k]) {
    return Mismatch(Describe("a", a) + " and " + Describe("b", b) + " do not multiply: dim " +
                        std::to_string(d.a_k) + " of a against dim " + std::to_string(d.b_k) +
                        " of b",
                    "make them equal, or change \"transpose_a\" or \"transpose_b\"");
  }
  const Shape rows =
      AttrBool(v.op, "transpose_a") ? Part(a.shape, 1, 2) : Part(a.shape, 0, a.shape.rank() - 1);
  return std::vector<OutputSpec>{{Join(rows, Part(b.shape, d.b_n, d.b_n + 1)), a.dtype}};
}

Rows MatmulRows(const OpView& v) {
  const MatmulDims d = MatmulGeometry(v);
  const int y_n = v.in(0).shape.rank() - 1;  // y has a's rank
  Rows rows = {AllB(v)};
  for (int i = 0; i < y_n - 1; ++i) rows.push_back({{S(i), B()}, {S(i)}});
  rows.push_back({{S(d.a_m), B()}, {S(y_n - 1)}});
  rows.push_back({{B(), S(d.b_n)}, {S(y_n)}});
  rows.push_back({{S(d.a_k), S(d.b_k)}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  rows.push_back({{B(), P()}, {P()}});
  return rows;
}

AttrMap Transposes(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

// y = op(a) op(b). Each gradient is again a product in which what was transposed changes sides.
InputGrads MatmulGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId a = op.inputs[0], b = op.inputs[1], dy = g.output_grads[0];
  const bool ta = AttrBool(op, "transpose_a"), tb = AttrBool(op, "transpose_b");
  std::vector<TensorId> grads = {-1, -1};
  if (g.needs_grad[0]) {
    grads[0] = ta ? AddGradient(g, "matmul", ".da", {b, dy}, Transposes(tb, true))
                  : AddGradient(g, "matmul", ".da", {dy, b}, Transposes(false, !tb));
  }
  if (g.needs_grad[1]) {
    if (ta) {
      grads[1] = tb ? AddGradient(g, "matmul", ".db", {dy, a}, Transposes(true, true))
                    : AddGradient(g, "matmul", ".db", {a, dy}, Transposes(false, false));
    } else {
      grads[1] = tb ? AddGradient(g, "matmul_grad_b", ".db", {dy, a})
                    : AddGradient(g, "matmul_grad_b", ".db", {a, dy});
    }
  }
  return grads;
}

double MatmulFlops(const OpView& v) {
  const double n = static_cast<double>(v.in_dims(1)[MatmulGeometry(v).b_n]);
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) * n;
}

Specs InferMatmulGradB(const OpView& v) {
  const Tensor &u = v.in(0), &w = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"u", "v"}));
  RETURN_IF_ERROR(ExpectRank("u", u, 2));
  RETURN_IF_ERROR(ExpectRank("v", w, 2));
  const int last = u.shape.rank() - 1;
  if (w.shape.rank() != last + 1 || Part(u.shape, 0, last) != Part(w.shape, 0, last)) {
    return Mismatch(Describe("u", u) + " and " + Describe("v", w) +
                    " differ in their leading dimensions");
  }
  return std::vector<OutputSpec>{
      {Join(Part(u.shape, last, last + 1), Part(w.shape, last, last + 1)), u.dtype}};
}

Rows MatmulGradBRows(const OpView& v) {
  const int last = v.in(0).shape.rank() - 1;
  Rows rows = {AllB(v)};
  for (int i = 0; i < last; ++i) rows.push_back({{S(i), S(i)}, {P()}});
  rows.push_back({{S(last), B()}, {S(0)}});
  rows.push_back({{B(), S(last)}, {S(1)}});
  rows.push_back({{P(), B()}, {P()}});
  rows.push_back({{B(), P()}, {P()}});
  return rows;
}

double MatmulGradBFlops(const OpView& v) {
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) *
         static_cast<double>(v.in_dims(1).back());
}

ProductSpec MatmulProduct(const LocalOp& op) {
  const Dims &a = op.in[0], &b = op.in[1];
  const bool ta = AttrBool(op, "transpose_a"), tb = AttrBool(op, "transpose_b");
  return {.m = ta ? a[1] : CountElements(a, 0, static_cast<int>(a.size()) - 1),
          .n = tb ? b[0] : b[1],
          .k = tb ? b[1] : b[0],
          .transpose_a = ta,
          .transpose_b = tb};
}

// uT v.
ProductSpec MatmulGradBProduct(const LocalOp& op) {
  const Dims &u = op.in[0], &v = op.in[1];
  return {.m = u.back(),
          .n = v.back(),
          .k = CountElements(u, 0, static_cast<int>(u.size()) - 1),
          .transpose_a = true};
}

Samples MatmulSamples(const SampleSizes& s) {
  const SampleTensor a{{s.b, s.t, s.c}}, b{{s.c, s.o}}, a_t{{s.c, s.t}}, b_t{{s.o, s.c}};
  return {{{a, b}},
          {{a, b_t}, Transposes(false, true)},
          {{a_t, b}, Transposes(true, false)},
          {{a_t, b_t}, Transposes(true, true)}};
}

}  // namespace

std::vector<OpDef> MatmulOps() {
  return {
      {.kind = "matmul",
       .usage = "a[..., m, k], b[k, n] -> [..., m, n]",
       .inputs = {2},
       .attrs = {{"transpose_a", AttrType::kBool}, {"transpose_b", AttrType::kBool}},
       .infer = InferMatmul,
       .signatures = MatmulRows,
       .gradient = MatmulGradient,
       .flops = MatmulFlops,
       .product = MatmulProduct,
       .samples = MatmulSamples},
      {.kind = "matmul_grad_b",
       .usage = "u[..., p], v[..., q] -> [p, q]",
       .inputs = {2},
       .infer = InferMatmulGradB,
       .signatures = MatmulGradBRows,
       .flops = MatmulGradBFlops,
       .product = MatmulGradBProduct,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{{{s.b, s.t, s.c}}, {{s.b, s.t, s.o}}}}};
       }},
  };
}

}  // namespace oneflow
