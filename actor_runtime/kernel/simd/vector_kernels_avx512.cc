#define ONEFLOW_VECTOR_NAMESPACE avx512
#define ONEFLOW_VECTOR_BYTES 64
#define ONEFLOW_TILE_ROWS 14    // of the matrix product's register tile
#define ONEFLOW_TILE_VECTORS 2  // its columns, in vectors
#include "actor_runtime/kernel/simd/vector_kernels.inc.h"
