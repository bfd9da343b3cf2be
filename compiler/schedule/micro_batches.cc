#include "compiler/schedule/micro_batches.h"

#include "compiler/schedule/streams.h"

namespace oneflow {

void SetMicroBatches(int64_t micro_batches, int stages, const Schedule& schedule,
                     Lowered* lowered) {
  proto::Program& program = lowered->program;
  const int64_t before = program.micro_batches();
  // A rate is 1 or the number of micro-batches.
  const auto changed = [&](int32_t rate) {
    return rate == before ? static_cast<int32_t>(micro_batches) : rate;
  };
  for (proto::Register& r : *program.mutable_register_()) {
    r.set_fires_per_fill(changed(r.fires_per_fill()));
  }
  for (proto::Actor& actor : *program.mutable_actor()) {
    for (proto::Input& input : *actor.mutable_input()) {
      input.set_fires_per_read(changed(input.fires_per_read()));
    }
  }
  program.set_micro_batches(micro_batches);
  program.clear_stream();
  AddStreams(lowered, stages, schedule);
}

}  // namespace oneflow
