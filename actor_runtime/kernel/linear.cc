// The linear family. Dimensions that are contracted and dimensions of the output lie together in
// every operand, so each kernel is one product of matrices [lead, c], [lead, o] and [c, o] (or [o,
// c]).
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/product.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

struct Sides {
  int64_t c, o;
};

// Of a weight w[c..., o...], or w[o..., c...] when transposed.
Sides SidesOf(const KernelSetup& s, const Dims& w) {
  const int contract = static_cast<int>(IntAttr(s, "contract", 1));
  const int rank = static_cast<int>(w.size());
  if (BoolAttr(s, "transpose_w")) {
    return {ProductOf(w, rank - contract), ProductOf(w, 0, rank - contract)};
  }
  return {ProductOf(w, 0, contract), ProductOf(w, contract)};
}

ProductSpec LinearSpec(const KernelSetup& s) {
  const Dims& x = In(s, 0).local();
  const Sides w = SidesOf(s, In(s, 1).local());
  const int lead = static_cast<int>(x.size()) - static_cast<int>(IntAttr(s, "contract", 1));
  return {.m = ProductOf(x, 0, lead),
          .n = w.o,
          .k = w.c,
          .bias_input = s.in.size() > 2 ? 2 : -1,
          .transpose_b = BoolAttr(s, "transpose_w")};
}

ProductSpec GradInputSpec(const KernelSetup& s) {
  const Dims& dy = In(s, 0).local();
  const Dims& w_dims = In(s, 1).local();
  const Sides w = SidesOf(s, w_dims);
  const int o_dims = static_cast<int>(w_dims.size()) - static_cast<int>(IntAttr(s, "contract", 1));
  const int64_t lead = ProductOf(dy, 0, static_cast<int>(dy.size()) - o_dims);
  return {.m = lead, .n = w.c, .k = w.o, .transpose_b = !BoolAttr(s, "transpose_w")};
}

absl::StatusOr<Kernel> MakeProductThen(const KernelSetup& s, ProductSpec spec,
                                       ProductSpec::Then then) {
  spec.then = then;
  return MakeProduct(s, spec);
}

}  // namespace

absl::StatusOr<Kernel> MakeLinear(const KernelSetup& s) { return MakeProduct(s, LinearSpec(s)); }

absl::StatusOr<Kernel> MakeLinearGelu(const KernelSetup& s) {
  return MakeProductThen(s, LinearSpec(s), ProductSpec::Then::kGelu);
}

absl::StatusOr<Kernel> MakeLinearAdd(const KernelSetup& s) {
  ProductSpec spec = LinearSpec(s);
  spec.bias_input = s.in.size() > 3 ? 3 : -1;
  return MakeProductThen(s, spec, ProductSpec::Then::kAdd);
}

absl::StatusOr<Kernel> MakeLinearGradInput(const KernelSetup& s) {
  return MakeProduct(s, GradInputSpec(s));
}

absl::StatusOr<Kernel> MakeLinearGeluGradInput(const KernelSetup& s) {
  return MakeProductThen(s, GradInputSpec(s), ProductSpec::Then::kGeluGrad);
}

absl::StatusOr<Kernel> MakeLinearGradWeight(const KernelSetup& s) {
  const Sides w = SidesOf(s, s.out[0].local());
  const int64_t lead = ProductOf(In(s, 0).local(), 0, static_cast<int>(IntAttr(s, "lead")));
  if (BoolAttr(s, "transpose_w")) {  // dyT x
    return MakeProduct(
        s, {.m = w.o, .n = w.c, .k = lead, .a_input = 1, .b_input = 0, .transpose_a = true});
  }
  return MakeProduct(s, {.m = w.c, .n = w.o, .k = lead, .transpose_a = true});  // xT dy
}

absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t rows = ProductOf(In(s, 0).local(), 0, static_cast<int>(IntAttr(s, "lead")));
    return
        [rows, width = Elements(s.out[0]), &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
          const S* dy = call.input<S>(0);
          T* dbias = call.output<T>(0);
          ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
            v.column_sums(dy, dbias, rows, width, begin, end, call.accumulate);
          });
          return absl::OkStatus();
        };
  });
}

}  // namespace oneflow
