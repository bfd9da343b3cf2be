// Where the choices of tokens stand in a piece of the queues [G, b, r, C], and the tokens of
// experts (oneflow_core/op/route_dims.h says what they are). Internal to kernel/ and cuda/kernel/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

struct QueueMap {
  int64_t tokens = 0, choices = 0;  // of the piece
  int32_t of_group = 1;             // experts of a group
  int64_t first_group = 0, groups = 0, runs = 0, run = 1, slots = 0;
  bool full = false;  // a token stands in every slot

  // The run of a token.
  constexpr int64_t Run(int64_t token) const { return token / run; }
  // The row of the queues of a choice in a run, by its expert and slot; -1: none here.
  constexpr int64_t Row(int64_t of_run, int32_t expert, int32_t slot) const {
    const int64_t group = expert / of_group - first_group;
    if (slot < 0 || slot >= slots || expert < 0 || group < 0 || group >= groups) return -1;
    return (group * runs + of_run) * slots + slot;
  }
};

// `queues` is the piece of y[G, b, r, C, H], `ids` that of ids[b, t, k].
inline QueueMap MapQueues(const KernelSetup& s, const Port& queues, const Port& ids) {
  const Dims &q = queues.slice.size, &i = ids.slice.size;
  QueueMap m{.tokens = i[0] * i[1], .choices = i[2]};
  m.of_group = static_cast<int32_t>(IntAttr(s, "experts") / queues.dims[0]);
  m.first_group = queues.slice.begin[0];
  m.groups = q[0];
  m.runs = q[1] * q[2];
  m.run = m.runs > 0 ? m.tokens / m.runs : 1;
  m.slots = q[3];
  m.full = queues.dims[0] == 1 && DoubleAttr(s, "capacity") <= 0;
  return m;
}

// The queues of a piece, and the tokens of each expert in them.
struct ExpertQueues {
  int64_t groups = 0, runs = 0, slots = 0, of_group = 1;

  constexpr int64_t experts() const { return groups * of_group; }
  // The rows [begin, end) of an expert's tokens in a queue.
  struct Rows {
    int64_t begin, end;
    constexpr int64_t size() const { return end - begin; }
  };
  // Of expert `e` of the group of `queue`. Never outside of the queue, whatever is in `offsets`.
  constexpr Rows FindInQueue(const int32_t* offsets, int64_t queue, int64_t e) const {
    const int32_t* at = offsets + queue * (of_group + 1) + e;
    const int64_t begin = std::clamp<int64_t>(at[0], 0, slots);
    return {queue * slots + begin, queue * slots + std::clamp<int64_t>(at[1], begin, slots)};
  }
  // The queue of run 0 of the group of expert `e` of the piece; those of other runs follow it.
  constexpr int64_t FirstQueue(int64_t e) const { return e / of_group * runs; }
  // Of expert `e` of the piece in the queue of a run.
  constexpr Rows Find(const int32_t* offsets, int64_t e, int64_t run) const {
    return FindInQueue(offsets, FirstQueue(e) + run, e % of_group);
  }
};

// `tokens` is the piece of y[G, b, r, C, H], `offsets` that of offsets[G, b, r, E/G + 1].
inline absl::StatusOr<ExpertQueues> FindQueues(const KernelSetup& s, const Port& tokens,
                                               const Port& offsets, const Port& weight) {
  if (DoubleAttr(s, "load") > 0) {
    return InputError(s.name,
                      "has queues of a plan that is priced and not run: they would drop tokens",
                      "compile the graph again");
  }
  const Dims &t = tokens.slice.size, &o = offsets.slice.size;
  const ExpertQueues q{t[0], t[1] * t[2], t[3], o[3] - 1};
  if (weight.slice.size[0] == q.experts() &&
      weight.slice.begin[0] == tokens.slice.begin[0] * q.of_group) {
    return q;
  }
  return absl::InternalError(s.name + ": the experts of its weight are not those of its queues");
}

}  // namespace oneflow
