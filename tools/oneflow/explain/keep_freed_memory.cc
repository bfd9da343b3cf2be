#include "tools/oneflow/explain/keep_freed_memory.h"

#include <malloc.h>

namespace oneflow {

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 32 << 20);
  mallopt(M_ARENA_MAX, 4);
}

}  // namespace oneflow
