#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace oneflow {

// The first w forwards cover the way to the last stage and back; where links take time, more of
// them cover that too. The last stage has no way to cover: its backward follows its forward.
StageOrder OneFOneBOrder(const PipelineShape& shape) {
  const int64_t way = shape.stages - shape.stage;
  const int64_t extra = way > 1 ? shape.extra_in_flight : 0;
  const int64_t warm_up = std::min(shape.micro_batches, way + extra);
  StageOrder order;
  Append({{{Part::kForward}}, warm_up}, &order);
  Append({{{Part::kBackward}, {Part::kForward}}, shape.micro_batches - warm_up}, &order);
  Append({{{Part::kBackward}}, warm_up}, &order);
  return order;
}

}  // namespace oneflow
