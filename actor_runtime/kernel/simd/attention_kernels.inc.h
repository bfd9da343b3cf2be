// The body of attention_kernels_<instruction set>.cc: the same code, compiled for vectors of
// ONEFLOW_VECTOR_BYTES into the namespace ONEFLOW_VECTOR_NAMESPACE. It must not use inline
// functions of other headers: the linker would keep one copy, perhaps one that this processor
// cannot run.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "actor_runtime/kernel/simd/attention_kernels.h"
#include "actor_runtime/kernel/simd/product_kernels.h"
#include "oneflow_core/device/cpu_scratch.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the ABI's stay inside this file

namespace oneflow::ONEFLOW_VECTOR_NAMESPACE {
namespace {

// In this order: each uses those before it.
#include "actor_runtime/kernel/simd/vector_math.inc.h"

#include "actor_runtime/kernel/simd/pack.inc.h"

#include "actor_runtime/kernel/simd/panels.inc.h"

#include "actor_runtime/kernel/simd/attention_visibility.inc.h"

#include "actor_runtime/kernel/simd/attention.inc.h"

#include "actor_runtime/kernel/simd/attention_grad.inc.h"

}  // namespace

extern const AttentionKernels<float> kFloatAttention;
extern const AttentionKernels<double> kDoubleAttention;
extern const AttentionKernels<float, Bf16> kBf16Attention;
constinit const AttentionKernels<float> kFloatAttention = {Attention<float, float>,
                                                           AttentionGrad<float, float>};
constinit const AttentionKernels<double> kDoubleAttention = {Attention<double, double>,
                                                             AttentionGrad<double, double>};
constinit const AttentionKernels<float, Bf16> kBf16Attention = {Attention<float, Bf16>,
                                                                AttentionGrad<float, Bf16>};

}  // namespace oneflow::ONEFLOW_VECTOR_NAMESPACE
