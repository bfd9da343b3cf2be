// batch_matmul: a[..., m, k] b[..., k, n] -> [..., m, n], a product for each index of the leading
// dimensions, which both have. Its gradients are batch_matmuls.
#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// Which dimension is which. Transposed, a is [..., k, m] and b is [..., n, k].
struct BatchDims {
  int lead, a_m, a_k, b_k, b_n;
};

BatchDims Geometry(const OpView& v) {
  const int rank = v.in(0).shape.rank();
  const int row = rank - 2, column = rank - 1;
  const bool ta = AttrBool(v.op, "transpose_a"), tb = AttrBool(v.op, "transpose_b");
  return {row, ta ? column : row, ta ? row : column, tb ? column : row, tb ? row : column};
}

Specs InferBatchMatmul(const OpView& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"a", "b"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"a", "b"}, 0, 1));
  RETURN_IF_ERROR(ExpectRank("a", a, 3));
  const BatchDims d = Geometry(v);
  if (b.shape.rank() != a.shape.rank() ||
      Part(a.shape, 0, d.lead).dims != Part(b.shape, 0, d.lead).dims) {
    return Mismatch(
        Describe("a", a) + " and " + Describe("b", b) + " differ in their leading dimensions",
        "they have all in common but their last two; use `linear` for one matrix b");
  }
  if (a.shape.dims[d.a_k] != b.shape.dims[d.b_k]) {
    return Mismatch(Describe("a", a) + " and " + Describe("b", b) + " do not multiply: dim " +
                        std::to_string(d.a_k) + " of a against dim " + std::to_string(d.b_k) +
                        " of b",
                    "make them equal, or change \"transpose_a\" or \"transpose_b\"");
  }
  const Shape matrix = Join(Part(a.shape, d.a_m, d.a_m + 1), Part(b.shape, d.b_n, d.b_n + 1));
  return std::vector<OutputSpec>{{Join(Part(a.shape, 0, d.lead), matrix), a.dtype}};
}

Rows BatchMatmulRows(const OpView& v) {
  const BatchDims d = Geometry(v);
  Rows rows = LeadRows(v, d.lead);
  rows.push_back({{S(d.a_m), B()}, {S(d.lead)}});
  rows.push_back({{B(), S(d.b_n)}, {S(d.lead + 1)}});
  rows.push_back({{S(d.a_k), S(d.b_k)}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  rows.push_back({{B(), P()}, {P()}});
  return rows;
}

// The gradients of y = op(a) op(b). A transposed operand changes sides.
InputGrads BatchMatmulGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId a = op.inputs[0], b = op.inputs[1], dy = g.output_grads[0];
  const bool ta = AttrBool(op, "transpose_a"), tb = AttrBool(op, "transpose_b");
  const auto product = [&g](const char* suffix, TensorId x, TensorId y, bool tx, bool ty) {
    return AddGradient(g, "batch_matmul", suffix, {x, y},
                       {{"transpose_a", tx}, {"transpose_b", ty}});
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

double BatchMatmulFlops(const OpView& v) {
  const double n = static_cast<double>(v.in_dims(1)[Geometry(v).b_n]);
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) * n;
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

std::vector<OpDef> BatchMatmulOps() {
  return {{.kind = "batch_matmul",
           .usage = "a[..., m, k], b[..., k, n] -> [..., m, n]",
           .inputs = {2},
           .attrs = {{"transpose_a", AttrType::kBool}, {"transpose_b", AttrType::kBool}},
           .infer = InferBatchMatmul,
           .signatures = BatchMatmulRows,
           .gradient = BatchMatmulGradient,
           .flops = BatchMatmulFlops,
           .product = BatchMatmulProduct,
           .precision = {Precision::kNarrow},
           .cpu_workspace = BatchMatmulCpuWorkspace,
           .samples = BatchMatmulSamples}};
}

}  // namespace oneflow
