#include "actor_runtime/kernel/product_spec.h"

#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

using Then = ProductSpec::Then;

struct Sides {
  int64_t c, o;
};

// The sides of a weight w[c..., o...], or w[o..., c...] when transposed.
Sides FindSides(const KernelSetup& s, const Dims& w) {
  const int contract = static_cast<int>(IntAttr(s, "contract", 1));
  const int rank = static_cast<int>(w.size());
  if (BoolAttr(s, "transpose_w")) {
    return {DimsProduct(w, rank - contract), DimsProduct(w, 0, rank - contract)};
  }
  return {DimsProduct(w, 0, contract), DimsProduct(w, contract)};
}

}  // namespace

ProductSpec LinearProduct(const KernelSetup& s) {
  const Dims& x = In(s, 0).local();
  const Sides w = FindSides(s, In(s, 1).local());
  const int leading = static_cast<int>(x.size()) - static_cast<int>(IntAttr(s, "contract", 1));
  const bool adds = s.kind == "linear_add";
  const int bias = adds ? 3 : 2;
  return {.m = DimsProduct(x, 0, leading),
          .n = w.o,
          .k = w.c,
          .bias_input = static_cast<int>(s.in.size()) > bias ? bias : -1,
          .transpose_b = BoolAttr(s, "transpose_w"),
          .then = adds                      ? Then::kAdd
                  : s.kind == "linear_gelu" ? Then::kGelu
                                            : Then::kNothing};
}

ProductSpec LinearGradInputProduct(const KernelSetup& s) {
  const Dims& dy = In(s, 0).local();
  const Dims& w_dims = In(s, 1).local();
  const Sides w = FindSides(s, w_dims);
  const int o_dims = static_cast<int>(w_dims.size()) - static_cast<int>(IntAttr(s, "contract", 1));
  const int64_t leading = DimsProduct(dy, 0, static_cast<int>(dy.size()) - o_dims);
  return {.m = leading,
          .n = w.c,
          .k = w.o,
          .transpose_b = !BoolAttr(s, "transpose_w"),
          .then = s.kind == "linear_gelu_grad_input" ? Then::kGeluGrad : Then::kNothing};
}

ProductSpec LinearGradWeightProduct(const KernelSetup& s) {
  const Sides w = FindSides(s, s.out[0].local());
  const int64_t leading = DimsProduct(In(s, 0).local(), 0, static_cast<int>(IntAttr(s, "lead")));
  if (BoolAttr(s, "transpose_w")) {  // dyT x
    return {.m = w.o, .n = w.c, .k = leading, .a_input = 1, .b_input = 0, .transpose_a = true};
  }
  return {.m = w.c, .n = w.o, .k = leading, .transpose_a = true};  // xT dy
}

ProductSpec MatmulProduct(const KernelSetup& s) {
  const Dims &a = In(s, 0).local(), &b = In(s, 1).local();
  ProductSpec p{.transpose_a = BoolAttr(s, "transpose_a"),
                .transpose_b = BoolAttr(s, "transpose_b")};
  p.m = p.transpose_a ? a[1] : CountRows(In(s, 0));
  p.k = p.transpose_b ? b[1] : b[0];
  p.n = p.transpose_b ? b[0] : b[1];
  return p;
}

// u[..., p], v[..., q] -> uT v.
ProductSpec MatmulGradBProduct(const KernelSetup& s) {
  const Port &u = In(s, 0), &v = In(s, 1);
  return {.m = LastDim(u), .n = LastDim(v), .k = CountRows(u), .transpose_a = true};
}

BatchedProduct BatchMatmulProduct(const KernelSetup& s) {
  const Dims &a = In(s, 0).local(), &y = s.out[0].local();
  const size_t row = a.size() - 2, column = a.size() - 1;
  ProductSpec p{.m = y[row],
                .n = y[column],
                .transpose_a = BoolAttr(s, "transpose_a"),
                .transpose_b = BoolAttr(s, "transpose_b")};
  p.k = p.transpose_a ? a[row] : a[column];
  return {DimsProduct(y, 0, static_cast<int>(row)), p};
}

}  // namespace oneflow
