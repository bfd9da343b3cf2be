#include "actor_runtime/kernel/product.h"

#include <string>
#include <type_traits>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

using Then = ProductSpec::Then;

template <typename T, typename C>
Kernel TypedProduct(const ProductSpec& product, Isa isa) {
  return [p = product, &kernels = *ProductKernelsFor<T>(isa),
          &v = *VectorFor<SumType<T>, C>(isa)](const KernelCall& call) {
    const bool plain = p.then == Then::kNothing;
    if (call.accumulate && (std::is_same_v<C, Bf16> || !plain)) {
      return absl::InternalError("a product that is not a plain sum is not added up");
    }
    const T *a = call.input<T>(p.a_input), *b = call.input<T>(p.b_input);
    C* c = call.output<C>(0);
    const auto finish = [&](int64_t row, int64_t column, int64_t columns) {
      const int64_t at = row * p.n + column;
      if (p.then == Then::kGelu) {
        v.gelu(c + at, call.output<C>(1) + at, columns, /*accumulate=*/false);
      } else if (p.then == Then::kGeluGrad) {
        v.gelu_grad(c + at, call.input<C>(2) + at, c + at, columns, /*accumulate=*/false);
      } else if (p.then == Then::kGated) {
        const auto& gated = p.silu ? v.gated_silu : v.gated_gelu;
        gated.forward(call.input<C>(2) + at, c + at, call.output<C>(1) + at, columns, false);
      } else if (p.then == Then::kGatedGrad) {
        const auto& gated = p.silu ? v.gated_silu : v.gated_gelu;
        gated.grad(c + at, call.input<C>(2) + at, call.input<C>(3) + at, c + at,
                   call.output<C>(1) + at, columns, false);
      } else if constexpr (!std::is_same_v<C, Bf16>) {
        v.add(call.input<C>(2) + at, c + at, c + at, columns, /*accumulate=*/false);
      }
    };
    GemmArgs<T, C> g{.m = p.m,
                     .n = p.n,
                     .k = p.k,
                     .a = p.transpose_a ? Strided<T>{a, 1, p.m} : Strided<T>{a, p.k, 1},
                     .b = p.transpose_b ? Strided<T>{b, 1, p.k} : Strided<T>{b, p.n, 1},
                     .c = c,
                     .c_row = p.n,
                     .accumulate = call.accumulate,
                     .bias = p.bias_input < 0 ? nullptr : call.input<SumType<T>>(p.bias_input)};
    if (!plain) g.finished.emplace(finish);
    Gemm(kernels, g, call.workspace.data(), *call.pool);
    return absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup) {
  const ProductSpec product = FindProduct(setup);
  // Where it is empty no block is packed.
  RETURN_IF_ERROR(NeedWorkspace(
      setup, product.Empty() ? 0 : ProductWorkspace(product.m, product.n, product.k)));
  const DType in = In(setup, 0).dtype, out = setup.out[0].dtype;
  if (product.then == Then::kAdd && out == DType::kBF16) {
    return absl::UnimplementedError(setup.name + ": what is added to a product is not rounded");
  }
  if (product.bias_input >= 0 && In(setup, product.bias_input).dtype == DType::kBF16) {
    return absl::UnimplementedError(setup.name + ": a bias that is added is not bf16");
  }
  const bool alike = In(setup, 1).dtype == in;
  if (alike && in == DType::kF32 && out == in)
    return TypedProduct<float, float>(product, setup.isa);
  if (alike && in == DType::kF64 && out == in)
    return TypedProduct<double, double>(product, setup.isa);
  if (alike && in == DType::kBF16 && out == DType::kF32)
    return TypedProduct<Bf16, float>(product, setup.isa);
  if (alike && in == DType::kBF16 && out == in) return TypedProduct<Bf16, Bf16>(product, setup.isa);
  return absl::UnimplementedError(
      setup.name + ": no kernel \"" + setup.kind + "\" for dtypes " + std::string(Name(in)) + ", " +
      std::string(Name(In(setup, 1).dtype)) + " -> " + std::string(Name(out)));
}

}  // namespace oneflow
