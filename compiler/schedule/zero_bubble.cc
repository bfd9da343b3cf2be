// Zero bubble (Qi et al., ICLR'24), the whole family between its ZB-H1 (e = 0) and ZB-H2 (e = P −
// 1) in closed form. The backward of activations goes ahead, so that the stages before get it
// early; that of weights, for which nobody waits, fills what would be bubbles.
//
//   w = min(M, P − s + min(e, P − 1 − s))   forwards before the first backward
//   h = min(M, P + e)                       micro-batches that are saved at most, on every stage
//
// A stage saves a micro-batch from F to W: h − w backwards run ahead of their W. For equal F, B and
// W each stage idles for P − 1 − e of its 3M + P − 1 − e; so with e = 0 it holds as much as the
// first stage of 1f1b and idles a third as long, with e = P − 1 not at all. Both need M >= P + e,
// and e > 0 pays only where steps overlap: where no stage waits for the others' gradients.
#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace oneflow {

StageOrder ZeroBubbleOrder(const PipelineShape& shape) {
  const Task f{Part::kForward}, b{Part::kBackward}, w{Part::kWeights};
  const int64_t way = shape.stages - shape.stage, m = shape.micro_batches;
  const int64_t warm_up = std::min(m, way + std::min(shape.extra_in_flight, way - 1));
  const int64_t held = std::max(warm_up, std::min(m, shape.stages + shape.extra_in_flight));
  StageOrder order;
  Append({{f}, warm_up}, &order);
  Append({{b, f}, held - warm_up}, &order);
  Append({{b, w, f}, m - held}, &order);
  Append({{b, w}, warm_up}, &order);
  Append({{w}, held - warm_up}, &order);
  return order;
}

}  // namespace oneflow
