#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace oneflow {

StageOrder OneFOneBOrder(const PipelineShape& shape) {
  const int64_t warm_up = std::min<int64_t>(shape.micro_batches, shape.stages - shape.stage);
  const int64_t steady = shape.micro_batches - warm_up;
  StageOrder order = {{{Part::kForward}, warm_up}};
  if (steady > 0) order.push_back({{Part::kBackward, Part::kForward}, steady});
  order.push_back({{Part::kBackward}, warm_up});
  return order;
}

}  // namespace oneflow
