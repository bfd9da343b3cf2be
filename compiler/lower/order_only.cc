#include "compiler/lower/order_only.h"

#include <algorithm>

namespace oneflow {

proto::Register* AddControlRegister(Lowered* lowered, const std::string& name, int stage) {
  proto::Program& program = lowered->program;
  const int id = program.register_(0).id() + program.register__size();
  proto::Register* r = program.add_register_();
  r->set_id(id);
  r->set_name(name);
  r->set_stage(stage);
  r->set_slots(1);
  r->set_fires_per_fill(1);
  return r;
}

proto::Actor* AddOrderOnlyActor(Lowered* lowered, const std::string& name, int stage) {
  proto::Actor* actor = lowered->program.add_actor();
  actor->set_id(lowered->program.actor_size() - 1);
  actor->set_name(name);
  actor->set_stage(stage);
  return actor;
}

void AddControlInput(int control, proto::Actor* reader) {
  proto::Input* input = reader->add_input();
  input->set_register_(control);
  input->set_fires_per_read(1);
}

proto::Segment* FirstUpdate(Lowered* lowered, int stage) {
  for (proto::Segment& segment : *lowered->program.mutable_segment()) {
    const SegmentInfo& info = lowered->segments[segment.id()];
    const bool update = info.lane == Lane::kCompute && info.task.part == Part::kUpdate;
    if (segment.stage() == stage && update) {
      return &segment;
    }
  }
  return nullptr;
}

int StageCount(const Lowered& lowered) {
  int stages = 0;
  for (const proto::Segment& segment : lowered.program.segment()) {
    stages = std::max(stages, segment.stage() + 1);
  }
  return stages;
}

}  // namespace oneflow
