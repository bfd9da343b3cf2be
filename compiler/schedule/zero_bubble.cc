// Zero bubble (Qi et al., ICLR'24), schedules among which are its ZB-H1, its ZB-H2 and those
// beside them. The backward of activations goes ahead, so that the stages before get it early; that
// of weights, for which nobody waits, fills what would be bubbles.
//
//   F×w (B F)×d (B W F)×(M−w−d) (B W)×w W×d
//
//   w   forwards before the first backward: they fill the way to the last stage and back
//   d   backwards ahead of their W: at the end they fill the time that the stages before still need
//
// A stage holds a micro-batch from F to W, so at most w + d of them. For equal F, B and W and links
// without latency (EqualWarmUp)
//
//   w = min(M, P − s + min(e, P − 1 − s))   w + d = min(M, P + e)
//
// each stage idles for P − 1 − e of its 3M + P − 1 − e: with e = 0 (ZB-H1) it holds as much as the
// first stage of 1f1b and idles a third as long, with e = P − 1 (ZB-H2) not at all. Both need M >=
// P + e, and e > 0 pays only where steps overlap: where no stage waits for the others' gradients.
// For other times see fit_warm_ups.h.
#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace oneflow {

WarmUpDepth EqualWarmUp(const PipelineShape& shape) {
  const int64_t way = shape.stages - shape.stage, m = shape.micro_batches;
  const int64_t forwards = std::min(m, way + std::min(shape.extra_in_flight, way - 1));
  return {forwards, std::min(m, shape.stages + shape.extra_in_flight) - forwards};
}

StageOrder ZeroBubbleOrder(const PipelineShape& shape) {
  const Task f{Part::kForward}, b{Part::kBackward}, w{Part::kWeights};
  const int64_t m = shape.micro_batches;
  const WarmUpDepth warm_up = shape.warm_up.value_or(EqualWarmUp(shape));
  const int64_t forwards = std::min(m, warm_up.forwards), left = m - forwards;
  // Backwards without a W: some between forwards, and where these are too few, some after.
  const int64_t between = std::min(left, warm_up.backwards);
  const int64_t after = std::min(forwards, warm_up.backwards - between);
  StageOrder order;
  Append({{f}, forwards}, &order);
  Append({{b, f}, between}, &order);
  Append({{b, w, f}, left - between}, &order);
  Append({{b}, after}, &order);
  Append({{b, w}, forwards - after}, &order);
  Append({{w}, between + after}, &order);
  return order;
}

}  // namespace oneflow
