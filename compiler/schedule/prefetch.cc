#include "compiler/schedule/prefetch.h"

#include "compiler/schedule/use_rings.h"

namespace oneflow {

void AddPrefetch(int ahead, Lowered* lowered) {
  AddRings(Lane::kGather, lowered->gather_uses, ahead, lowered);
}

}  // namespace oneflow
