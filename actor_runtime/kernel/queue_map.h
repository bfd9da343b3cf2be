// Where a choice of a token lies in a piece of the queues [G, b, r, C]
// (oneflow_core/op/route_dims.h says what they are). Internal to kernel/ and cuda/kernel/.
#pragma once

#include <cstdint>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

struct QueueMap {
  int64_t tokens = 0, choices = 0;  // of the piece
  int64_t of_group = 1;             // experts of a group
  int64_t first_group = 0, groups = 0, runs = 0, run = 1, slots = 0;
  bool full = false;  // a token stands in every slot

  // The row of the queues of choice i with this expert and slot; -1: none here.
  int64_t Row(int64_t i, int32_t expert, int32_t slot) const {
    const int64_t group = expert / of_group - first_group;
    if (slot < 0 || slot >= slots || expert < 0 || group < 0 || group >= groups) return -1;
    return (group * runs + i / (choices * run)) * slots + slot;
  }
};

// `queues` is the piece of y[G, b, r, C, H], `ids` that of ids[b, t, k].
inline QueueMap MapQueues(const KernelSetup& s, const Port& queues, const Port& ids) {
  const Dims &q = queues.slice.size, &i = ids.slice.size;
  QueueMap m{.tokens = i[0] * i[1], .choices = i[2]};
  m.of_group = IntAttr(s, "experts") / queues.dims[0];
  m.first_group = queues.slice.begin[0];
  m.groups = q[0];
  m.runs = q[1] * q[2];
  m.run = m.runs > 0 ? m.tokens / m.runs : 1;
  m.slots = q[3];
  m.full = queues.dims[0] == 1 && DoubleAttr(s, "capacity") <= 0;
  return m;
}

}  // namespace oneflow
