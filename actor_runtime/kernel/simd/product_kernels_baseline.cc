#define ONEFLOW_VECTOR_NAMESPACE baseline
#define ONEFLOW_VECTOR_BYTES 16
#define ONEFLOW_TILE_ROWS 4     // of the register tile
#define ONEFLOW_TILE_VECTORS 2  // its columns, in vectors
#include "actor_runtime/kernel/simd/product_kernels.inc.h"
