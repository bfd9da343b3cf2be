#define ONEFLOW_VECTOR_NAMESPACE avx512
#define ONEFLOW_VECTOR_BYTES 64
#define ONEFLOW_TILE_ROWS 8     // of the register tile
#define ONEFLOW_TILE_VECTORS 3  // its columns, in vectors
#include "actor_runtime/kernel/simd/product_kernels.inc.h"
