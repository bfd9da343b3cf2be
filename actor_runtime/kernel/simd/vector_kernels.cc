#include "actor_runtime/kernel/simd/vector_kernels.h"

namespace oneflow {

// Each in its own file, compiled for its own instruction set.
namespace baseline {
extern const VectorKernels<float> kFloat;
extern const VectorKernels<double> kDouble;
extern const VectorKernels<float, Bf16> kBf16;
}  // namespace baseline
#if defined(__x86_64__)
namespace avx2 {
extern const VectorKernels<float> kFloat;
extern const VectorKernels<double> kDouble;
extern const VectorKernels<float, Bf16> kBf16;
}  // namespace avx2
namespace avx512 {
extern const VectorKernels<float> kFloat;
extern const VectorKernels<double> kDouble;
extern const VectorKernels<float, Bf16> kBf16;
}  // namespace avx512
#endif

#if defined(__x86_64__)
#define ONEFLOW_PICK(isa, table) \
  (isa >= Isa::kAvx512 ? &avx512::table : isa == Isa::kAvx2 ? &avx2::table : &baseline::table)
#else
#define ONEFLOW_PICK(isa, table) (&baseline::table)
#endif

template <>
const VectorKernels<float>* VectorFor<float>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kFloat) : nullptr;
}

template <>
const VectorKernels<double>* VectorFor<double>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kDouble) : nullptr;
}

template <>
const VectorKernels<float, Bf16>* VectorFor<float, Bf16>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kBf16) : nullptr;
}

#undef ONEFLOW_PICK

}  // namespace oneflow
