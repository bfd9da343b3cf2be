#include "compiler/schedule/schedule.h"

namespace oneflow {

StageOrder GPipeOrder(const PipelineShape& shape) {
  return {{{{Part::kForward}}, shape.micro_batches}, {{{Part::kBackward}}, shape.micro_batches}};
}

}  // namespace oneflow
