#define ONEFLOW_VECTOR_NAMESPACE avx2
#define ONEFLOW_VECTOR_BYTES 32
#include "actor_runtime/kernel/simd/attention_kernels.inc.h"
