// Products of two matrices. matmul: a[..., m, k] b[k, n] -> [..., m, n]; its weight-like gradient
// sums over all leading dims. batch_matmul: a[..., m, k] b[..., k, n] -> [..., m, n], a product for
// each index of the leading dimensions, which both have. Its gradients are batch_matmuls.
#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// Which dimension is which, behind the leading ones of a. Transposed, a is [..., k, m] and b is
// [..., n, k].
struct MatmulDims {
  int lead, a_m, a_k, b_k, b_n;
};

MatmulDims MatmulGeometry(const OpView& v) {
  const int a = v.in(0).shape.rank() - 2, b = v.in(1).shape.rank() - 2;  // of the rows
  const bool ta = AttrBool(v.op, "transpose_a"), tb = AttrBool(v.op, "transpose_b");
  return {a, ta ? a + 1 : a, ta ? a : a + 1, tb ? b + 1 : b, tb ? b : b + 1};
}

Specs InferProduct(const OpView& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  const MatmulDims d = MatmulGeometry(v);
  if (a.shape.dims[d.a_k] != b.shape.dims[d.b_k]) {
    return Mismatch(Describe("a", a) + " and " + Describe("b", b) + " do not multiply: dim " +
                        std::to_string(d.a_k) + " of a against dim " + std::to_string(d.b_k) +
                        " of b",
                    "make them equal, or change \"transpose_a\" or \"transpose_b\"");
  }
  const Shape matrix = Join(Part(a.shape, d.a_m, d.a_m + 1), Part(b.shape, d.b_n, d.b_n + 1));
  return std::vector<OutputSpec>{{Join(Part(a.shape, 0, d.lead), matrix), a.dtype}};
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
  return InferProduct(v);
}

Specs InferBatchMatmul(const OpView& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"a", "b"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"a", "b"}, 0, 1));
  RETURN_IF_ERROR(ExpectRank("a", a, 3));
  if (b.shape.rank() != a.shape.rank() ||
      Part(a.shape, 0, a.shape.rank() - 2).dims != Part(b.shape, 0, a.shape.rank() - 2).dims) {
    return Mismatch(
        Describe("a", a) + " and " + Describe("b", b) + " differ in their leading dimensions",
        "they have all in common but their last two; use `linear` for one matrix b");
  }
  return InferProduct(v);
}

// `rows`: those of the leading dimensions.
Rows AddProductRows(const OpView& v, Rows rows) {
  const MatmulDims d = MatmulGeometry(v);
  rows.push_back({{S(d.a_m), B()}, {S(d.lead)}});
  rows.push_back({{B(), S(d.b_n)}, {S(d.lead + 1)}});
  rows.push_back({{S(d.a_k), S(d.b_k)}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  rows.push_back({{B(), P()}, {P()}});
  return rows;
}

Rows MatmulRows(const OpView& v) {
  return AddProductRows(v, LeadRows(v, MatmulGeometry(v).lead, /*replicated=*/{1}));
}

Rows BatchMatmulRows(const OpView& v) {
  return AddProductRows(v, LeadRows(v, MatmulGeometry(v).lead));
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

InputGrads BatchMatmulGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId a = op.inputs[0], b = op.inputs[1], dy = g.output_grads[0];
  const bool ta = AttrBool(op, "transpose_a"), tb = AttrBool(op, "transpose_b");
  const auto product = [&g](const char* suffix, TensorId x, TensorId y, bool tx, bool ty) {
    return AddGradient(g, "batch_matmul", suffix, {x, y}, Transposes(tx, ty));
  };
  std::vector<TensorId> grads = {-1, -1};
  if (g.needs_grad[0]) {
    grads[0] = ta ? product(".da", b, dy, tb, true) : product(".da", dy, b, false, !tb);
  }
  if (g.needs_grad[1]) {
    grads[1] = tb ? product(".db", dy, a, true, ta) : product(".db", a, dy, !ta, false);
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

ProductSpec BatchMatmulProduct(const LocalOp& op) {
  const Dims &a = op.in[0], &y = op.out[0];
  const int row = static_cast<int>(a.size()) - 2, column = row + 1;
  const bool ta = AttrBool(op, "transpose_a");
  return {.batch = CountElements(y, 0, row),
          .m = y[row],
          .n = y[column],
          .k = ta ? a[row] : a[column],
          .transpose_a = ta,
          .transpose_b = AttrBool(op, "transpose_b")};
}

// Each thread multiplies matrices of its own.
int64_t BatchMatmulCpuWorkspace(const LocalOp& op, int threads) {
  const ProductSpec p = BatchMatmulProduct(op);
  return p.Empty() ? 0 : threads * ProductWorkspace(p.m, p.n, p.k);
}

Samples BatchMatmulSamples(const SampleSizes& s) {
  const SampleTensor head{{s.b, s.heads, s.t, s.d}}, turned{{s.b, s.heads, s.d, s.t}};
  const SampleTensor weights{{s.b, s.heads, s.t, s.t}, 0, 1};
  const Samples wide = {{{head, head}, {{"transpose_b", true}}},
                        {{weights, head}},
                        {{weights, head}, {{"transpose_a", true}}},
                        {{weights, turned}, {{"transpose_a", true}, {"transpose_b", true}}}};
  return AlsoNarrow(wide);
}

}  // namespace

std::vector<OpDef> MatmulOps() {
  const std::vector<AttrDef> transposes = {{"transpose_a", AttrType::kBool},
                                           {"transpose_b", AttrType::kBool}};
  return {
      {.kind = "matmul",
       .usage = "a[..., m, k], b[k, n] -> [..., m, n]",
       .inputs = {2},
       .attrs = transposes,
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
      {.kind = "batch_matmul",
       .usage = "a[..., m, k], b[..., k, n] -> [..., m, n]",
       .inputs = {2},
       .attrs = transposes,
       .infer = InferBatchMatmul,
       .signatures = BatchMatmulRows,
       .gradient = BatchMatmulGradient,
       .flops = MatmulFlops,
       .product = BatchMatmulProduct,
       .precision = {Precision::kNarrow},
       .cpu_workspace = BatchMatmulCpuWorkspace,
       .samples = BatchMatmulSamples},
  };
}

}  // namespace oneflow
