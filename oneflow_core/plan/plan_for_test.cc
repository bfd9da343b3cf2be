#include "oneflow_core/plan/plan_for_test.h"

#include <algorithm>

#include "oneflow_core/plan/places.h"
#include "oneflow_core/plan/plan_format.h"

namespace oneflow {

PlanBuilder::PlanBuilder(const std::vector<std::pair<std::string, int>>& mesh) {
  plan_.set_version(kPlanVersion);
  plan_.set_kernel_threads(1);
  plan_.set_stage_axis(-1);
  int stages = 1;
  for (const auto& [name, size] : mesh) {
    if (name == "pipe") {
      plan_.set_stage_axis(plan_.mesh().axis_size());
      stages = size;
    }
    auto* axis = plan_.mutable_mesh()->add_axis();
    axis->set_name(name);
    axis->set_size(size);
  }
  for (int s = 0; s < stages; ++s) plan_.add_memory()->set_stage(s);
  plan_.add_program()->set_name("train");
  program().set_micro_batches(1);
  program().set_micro_batch_size(1);
}

int PlanBuilder::Register(const std::string& name, int stage, int slots, int64_t elements) {
  proto::Register* r = program().add_register_();
  r->set_id(program().register__size() - 1);
  r->set_name(name);
  r->set_stage(stage);
  r->mutable_layout()->add_dim(elements);
  r->set_dtype(proto::F32);
  r->set_slot_bytes((elements * 4 + 63) / 64 * 64);
  r->set_slots(slots);
  r->set_fires_per_fill(1);
  r->set_offset(-1);
  return r->id();
}

int PlanBuilder::Actor(const std::string& name, int stage, const std::vector<In>& inputs,
                       const std::vector<int>& outputs) {
  proto::Actor* actor = program().add_actor();
  actor->set_id(program().actor_size() - 1);
  actor->set_name(name);
  actor->set_stage(stage);
  for (const In& in : inputs) {
    proto::Input* input = actor->add_input();
    input->set_register_(in.reg);
    for (int axis : in.along) input->mutable_peers()->add_along(axis);
    input->set_fires_per_read(in.fires_per_read);
    input->set_initial_fills(in.initial_fills);
    const bool elsewhere = program().register_(in.reg).stage() != stage;
    if (elsewhere || !in.along.empty()) actor->mutable_boxing()->set_reduce(proto::Boxing::NONE);
    for (int axis : in.along) {
      actor->mutable_boxing()->set_reduce(proto::Boxing::SUM);
      actor->mutable_boxing()->add_reduce_axis(axis);
    }
  }
  for (int id : outputs) actor->add_output(id);
  return actor->id();
}

int PlanBuilder::Segment(const std::string& name, int stage, const std::vector<int>& actors) {
  proto::Segment* segment = program().add_segment();
  segment->set_id(program().segment_size() - 1);
  segment->set_name(name);
  segment->set_stage(stage);
  for (int actor : actors) segment->add_actor(actor);
  return segment->id();
}

void PlanBuilder::Stream(const std::string& name, int stage,
                         const std::vector<std::pair<std::vector<int>, int>>& order) {
  proto::Stream* stream = program().add_stream();
  stream->set_id(program().stream_size() - 1);
  stream->set_name(name);
  stream->set_stage(stage);
  for (const auto& [segments, repeat] : order) {
    proto::OrderRun* run = stream->add_order();
    for (int segment : segments) run->add_segment(segment);
    run->set_repeat(repeat);
  }
}

proto::Plan PlanBuilder::Finish() {
  for (proto::Register& r : *program().mutable_register_()) {
    proto::StageMemory& memory = *plan_.mutable_memory(r.stage());
    if (r.offset() < 0) r.set_offset(memory.register_bytes());
    memory.set_register_bytes(std::max(memory.register_bytes(), EndOf(r)));
  }
  for (proto::StageMemory& memory : *plan_.mutable_memory())
    memory.set_arena_bytes(memory.register_bytes());
  return plan_;
}

}  // namespace oneflow
