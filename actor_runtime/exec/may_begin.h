// May step n of a run begin?
#pragma once

#include <cstdint>

namespace oneflow {

// `begun`: the steps that at least one device has begun: 0 .. begun - 1. All devices finish these.
// Once the run is stopping, no other step begins.
constexpr bool MayBegin(int64_t step, int64_t begun, bool stopping) {
  return step < begun || !stopping;
}

}  // namespace oneflow
