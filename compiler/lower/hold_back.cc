#include "compiler/lower/hold_back.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// The first update segment of a stage in a lane; null if there is none.
proto::Segment* FirstUpdate(Lowered* lowered, int stage, Lane lane) {
  for (proto::Segment& segment : *lowered->program.mutable_segment()) {
    const SegmentInfo& info = lowered->segments[segment.id()];
    if (segment.stage() == stage && info.lane == lane && info.task.part == Part::kUpdate) {
      return &segment;
    }
  }
  return nullptr;
}

proto::Register* NewControl(Lowered* lowered, const std::string& name, int stage) {
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

// An actor without a kernel, at the head of a segment.
proto::Actor* NewOrderOnly(Lowered* lowered, const std::string& name, proto::Segment* segment) {
  proto::Actor* actor = lowered->program.add_actor();
  actor->set_id(lowered->program.actor_size() - 1);
  actor->set_name(name);
  actor->set_stage(segment->stage());
  const proto::Segment old = *segment;
  segment->clear_actor();
  segment->add_actor(actor->id());
  segment->mutable_actor()->MergeFrom(old.actor());
  return actor;
}

void HoldBack(int stage, Lowered* lowered) {
  proto::Segment* update = FirstUpdate(lowered, stage, Lane::kCompute);
  proto::Segment* copy = FirstUpdate(lowered, stage, Lane::kCopyUpdate);
  if (update == nullptr || copy == nullptr) return;
  const proto::Register* over = NewControl(lowered, absl::StrCat("backward_over.", stage), stage);
  NewOrderOnly(lowered, "backward_over", update)->add_output(over->id());
  proto::Input* input = NewOrderOnly(lowered, "await_backward", copy)->add_input();
  input->set_register_(over->id());
  input->set_fires_per_read(1);
}

}  // namespace

void HoldBackUpdateCopies(Lowered* lowered) {
  int stages = 0;
  for (const proto::Segment& segment : lowered->program.segment()) {
    stages = std::max(stages, segment.stage() + 1);
  }
  for (int stage = 0; stage < stages; ++stage) HoldBack(stage, lowered);
}

}  // namespace oneflow
