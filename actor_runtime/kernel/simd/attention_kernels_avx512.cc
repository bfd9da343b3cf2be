#define ONEFLOW_VECTOR_NAMESPACE avx512
#define ONEFLOW_VECTOR_BYTES 64
#include "actor_runtime/kernel/simd/attention_kernels.inc.h"
