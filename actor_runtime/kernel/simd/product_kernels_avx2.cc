#define ONEFLOW_VECTOR_NAMESPACE avx2
#define ONEFLOW_VECTOR_BYTES 32
#define ONEFLOW_TILE_ROWS 6     // of the register tile
#define ONEFLOW_TILE_VECTORS 2  // its columns, in vectors
#include "actor_runtime/kernel/simd/product_kernels.inc.h"
