#include "actor_runtime/kernel/simd/attention_kernels.h"

namespace oneflow {

// Each in its own file, compiled for its own instruction set.
#define ONEFLOW_DECLARE(isa)                                 \
  namespace isa {                                            \
  extern const AttentionKernels<float> kFloatAttention;      \
  extern const AttentionKernels<double> kDoubleAttention;    \
  extern const AttentionKernels<float, Bf16> kBf16Attention; \
  }
ONEFLOW_DECLARE(baseline)
#if defined(__x86_64__)
ONEFLOW_DECLARE(avx2)
ONEFLOW_DECLARE(avx512)
#define ONEFLOW_PICK(isa, table) \
  (isa >= Isa::kAvx512 ? &avx512::table : isa == Isa::kAvx2 ? &avx2::table : &baseline::table)
#else
#define ONEFLOW_PICK(isa, table) (&baseline::table)
#endif

template <>
const AttentionKernels<float>* AttentionKernelsFor<float>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kFloatAttention) : nullptr;
}

template <>
const AttentionKernels<double>* AttentionKernelsFor<double>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kDoubleAttention) : nullptr;
}

template <>
const AttentionKernels<float, Bf16>* AttentionKernelsFor<float, Bf16>(Isa isa) {
  return Has(isa) ? ONEFLOW_PICK(isa, kBf16Attention) : nullptr;
}

#undef ONEFLOW_DECLARE
#undef ONEFLOW_PICK

}  // namespace oneflow
