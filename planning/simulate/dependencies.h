// The dependencies of a firing, computed from rates and slots alone: the inverse of docs/firing.md.
// They are for analyses of a finished run; the runtimes never use them.
//
//   for (const Dependency& d : dependencies[actor]) {
//     const int64_t before = FiringBefore(d, firing);   // of d.actor; -1: none
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "actor_runtime/exec/net.h"

namespace oneflow {

// One edge, seen from the waiting actor: it waits for the fill of a source, or the return of a
// reader.
struct Dependency {
  int32_t actor = 0;       // concrete; the far end
  int32_t rate = 1;        // our firings that share a fill: only the first of them waits
  int32_t other_rate = 1;  // the far end's
  int32_t shift = 0;       // our fill f waits for its fill f + shift
};

// The firing of the far end that must be over before ours begins; -1: none.
inline int64_t FiringBefore(const Dependency& d, int64_t firing) {
  if (firing % d.rate != 0) return -1;
  const int64_t fill = firing / d.rate + d.shift;
  return fill < 0 ? -1 : (fill + 1) * d.other_rate - 1;
}

// By concrete actor.
std::vector<std::vector<Dependency>> FindDependencies(const ActorNet& net);

// The input of a reader, or the output of a writer, at which a message for `port` arrives.
const ActorInput& InputAt(const ActorSpec& reader, uint32_t port);
const ActorOutput& OutputAt(const ActorSpec& writer, uint32_t port);

}  // namespace oneflow
