#define ONEFLOW_VECTOR_NAMESPACE baseline
#define ONEFLOW_VECTOR_BYTES 16
#include "actor_runtime/kernel/simd/attention_kernels.inc.h"
