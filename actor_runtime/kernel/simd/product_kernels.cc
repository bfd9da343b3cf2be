#include "actor_runtime/kernel/simd/product_kernels.h"

#include <initializer_list>

namespace oneflow {

// Each in its own file, compiled for its own instruction set.
#define ONEFLOW_DECLARE(isa)                          \
  namespace isa {                                     \
  extern const ProductKernels<float> kFloatProduct;   \
  extern const ProductKernels<double> kDoubleProduct; \
  extern const ProductKernels<Bf16> kBf16Product;     \
  }
ONEFLOW_DECLARE(baseline)
#if defined(__x86_64__)
ONEFLOW_DECLARE(avx2)
ONEFLOW_DECLARE(avx512)
ONEFLOW_DECLARE(avx512bf16)
#define ONEFLOW_PICK(isa, table)                \
  (isa == Isa::kAvx512Bf16 ? &avx512bf16::table \
   : isa == Isa::kAvx512   ? &avx512::table     \
   : isa == Isa::kAvx2     ? &avx2::table       \
                           : &baseline::table)
#else
#define ONEFLOW_PICK(isa, table) (&baseline::table)
#endif

template <>
const ProductKernels<float>* ProductKernelsFor<float>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kFloatProduct) : nullptr;
}

template <>
const ProductKernels<double>* ProductKernelsFor<double>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kDoubleProduct) : nullptr;
}

template <>
const ProductKernels<Bf16>* ProductKernelsFor<Bf16>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kBf16Product) : nullptr;
}

template <typename T>
const ProductKernels<T>& BestProductKernels() {
  for (Isa isa : {Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2}) {
    if (const ProductKernels<T>* kernels = ProductKernelsFor<T>(isa)) return *kernels;
  }
  return *ProductKernelsFor<T>(Isa::kBaseline);
}

template const ProductKernels<float>& BestProductKernels<float>();
template const ProductKernels<double>& BestProductKernels<double>();
template const ProductKernels<Bf16>& BestProductKernels<Bf16>();

}  // namespace oneflow
