#include "actor_runtime/kernel/simd/product_kernels.h"

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

#undef ONEFLOW_DECLARE
#undef ONEFLOW_PICK

}  // namespace oneflow
