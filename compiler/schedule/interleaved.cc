// Interleaved 1F1B (Narayanan et al., SC'21), where each stage owns v chunks of the model and the
// pipe is a ring: what the last stage makes of chunk c the first takes up as chunk c + 1.
//
// Micro-batches go in rounds: P of them through chunk 0, the same through chunk 1, and so on;
// backwards go through the chunks the other way. A stage does w forwards, then a forward and a
// backward in turn, then the rest of the backwards:
//
//   w = min(M v, 2 (P − 1 − s) + (v − 1) R + e)     R: micro-batches of the longest round
//
// For equal chunks it idles for P − 1 chunks' F and B, 1/v of what 1f1b does. Megatron needs M to
// be a multiple of P. Here a rest of M mod P joins the last round, which is then longer than the
// ring: nobody waits more, and the formula holds for every M >= P.
#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace oneflow {
namespace {

// A step divided into rounds of P micro-batches. The last round also takes the remainder.
struct Rounds {
  int64_t count, size, last;
  int64_t longest() const { return std::max(count > 1 ? size : 0, last); }
};

Rounds MakeRounds(const PipelineShape& shape) {
  const int64_t p = shape.stages, count = std::max<int64_t>(1, shape.micro_batches / p);
  return {count, p, shape.micro_batches - (count - 1) * p};
}

int64_t WarmUp(const PipelineShape& shape, const Rounds& rounds) {
  return std::min(shape.micro_batches * shape.chunks, 2 * (shape.stages - 1 - shape.stage) +
                                                          (shape.chunks - 1) * rounds.longest() +
                                                          shape.extra_in_flight);
}

// All tasks of one part, in turn. `last_first`: chunks from the last to the first.
std::vector<Task> Sequence(Part part, const Rounds& rounds, int chunks, bool last_first) {
  std::vector<Task> tasks;
  for (int64_t round = 0; round < rounds.count; ++round) {
    const int64_t size = round + 1 < rounds.count ? rounds.size : rounds.last;
    for (int c = 0; c < chunks; ++c) {
      tasks.insert(tasks.end(), size, Task{part, last_first ? chunks - 1 - c : c});
    }
  }
  return tasks;
}

}  // namespace

StageOrder InterleavedOrder(const PipelineShape& shape) {
  Rounds rounds = MakeRounds(shape);
  const int64_t warm_up = WarmUp(shape, rounds);
  // Rounds far from both ends repeat one another: written once, with a repeat.
  const int64_t period = rounds.size * shape.chunks;
  const int64_t few = std::min(rounds.count, warm_up / period + 4);
  const int64_t skipped = rounds.count - few;
  rounds.count = few;

  const std::vector<Task> forward = Sequence(Part::kForward, rounds, shape.chunks, false);
  const std::vector<Task> backward = Sequence(Part::kBackward, rounds, shape.chunks, true);
  const auto steady = static_cast<int64_t>(forward.size()) - warm_up;
  std::vector<Task> pairs;
  for (int64_t i = 0; i < steady; ++i) {
    pairs.push_back(forward[i + warm_up]);
    pairs.push_back(backward[i]);
  }
  StageOrder order = Compressed({forward.begin(), forward.begin() + warm_up});
  if (skipped > 0) Append({{pairs.begin(), pairs.begin() + 2 * period}, skipped}, &order);
  Append(Compressed(pairs), &order);
  Append(Compressed({backward.begin() + steady, backward.end()}), &order);
  return order;
}

}  // namespace oneflow
