#include "planning/measure/actor_plans.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/plan/plan_format.h"

namespace oneflow {
namespace {

constexpr int kLine = 64;  // bytes of every register: the least there is

// A plan with one program, "train", of `stages` stages on a mesh of as many devices.
struct PlanMaker {
  proto::Plan plan;
  proto::Program* program;
  std::map<int, std::vector<int>> issue;  // by stage: exchanges

  explicit PlanMaker(int stages) : program(plan.add_program()) {
    plan.set_version(kPlanVersion);
    plan.set_launch_queue(1);
    plan.set_kernel_threads(1);
    plan.set_stage_axis(stages > 1 ? 0 : -1);
    if (stages > 1) {
      proto::Mesh::Axis* axis = plan.mutable_mesh()->add_axis();
      axis->set_name("pipe");
      axis->set_size(stages);
    }
    for (int stage = 0; stage < stages; ++stage) plan.add_memory()->set_stage(stage);
    program->set_name("train");
    program->set_micro_batches(1);
    program->set_micro_batch_size(1);
  }

  int AddRegister(int stage, int slots) {
    proto::StageMemory* memory = plan.mutable_memory(stage);
    proto::Register* reg = program->add_register_();
    reg->set_id(program->register__size() - 1);
    reg->set_name("r" + std::to_string(reg->id()));
    reg->set_stage(stage);
    reg->mutable_layout()->add_dim(kLine / 4);
    reg->set_dtype(proto::F32);
    reg->set_slot_bytes(kLine);
    reg->set_slots(slots);
    reg->set_fires_per_fill(1);
    reg->set_offset(memory->register_bytes());
    memory->set_register_bytes(memory->register_bytes() + slots * kLine);
    memory->set_arena_bytes(memory->register_bytes());
    return reg->id();
  }

  proto::Actor* NewActor(int stage, const std::string& kernel, int input, int output) {
    proto::Actor* actor = program->add_actor();
    actor->set_id(program->actor_size() - 1);
    actor->set_name("a" + std::to_string(actor->id()));
    actor->set_kernel(kernel);
    actor->set_stage(stage);
    if (input >= 0) {
      actor->add_input()->set_register_(input);
      actor->mutable_input(0)->set_fires_per_read(1);
    }
    if (output >= 0) actor->add_output(output);
    proto::Segment* segment = program->add_segment();
    segment->set_id(actor->id());
    segment->set_name(actor->name());
    segment->set_stage(stage);
    segment->add_actor(actor->id());
    return actor;
  }

  // input: a register of the stage, or -1. Returns the segment that holds the actor alone.
  int AddActor(int stage, int input, int output) {
    return NewActor(stage, "nothing", input, output)->id();
  }

  // Sends a register to another stage, `repeat` times a step. Returns the one that receives it.
  int AddTransfer(int input, int to, int slots, int repeat) {
    const int from = program->register_(input).stage(), output = AddRegister(to, slots);
    proto::Group* group = plan.add_group();
    group->set_name("stage " + std::to_string(from) + " to " + std::to_string(to));
    group->mutable_stages()->set_from(from);
    group->mutable_stages()->set_to(to);
    const int send = NewActor(from, "send", input, -1)->id();
    const int receive = NewActor(to, "receive", -1, output)->id();
    program->mutable_actor(receive)->mutable_boxing();
    for (const auto& [actor, partner] : {std::pair(send, receive), std::pair(receive, send)}) {
      proto::Exchange* exchange = program->mutable_actor(actor)->mutable_exchange();
      exchange->set_group(plan.group_size() - 1);
      exchange->set_partner(partner);
      const int stage = program->actor(actor).stage();
      AddStream(stage, repeat, proto::Stream::EXCHANGE)->add_segment(actor);
      issue[stage].push_back(actor);
    }
    return output;
  }

  proto::Plan Finish(int repeat) {
    for (const auto& [stage, actors] : issue) {
      proto::IssueOrder* order = program->add_issue();
      order->set_stage(stage);
      proto::ActorRun* run = order->add_run();
      run->mutable_actor()->Add(actors.begin(), actors.end());
      run->set_repeat(repeat);
    }
    return plan;
  }

  proto::OrderRun* AddStream(int stage, int repeat,
                             proto::Stream::Kind kind = proto::Stream::COMPUTE) {
    proto::Stream* stream = program->add_stream();
    stream->set_id(program->stream_size() - 1);
    stream->set_name("stream");
    stream->set_kind(kind);
    stream->set_stage(stage);
    stream->add_order()->set_repeat(repeat);
    return stream->mutable_order(0);
  }
};

}  // namespace

proto::Plan ChainOfActors(int actors) {
  PlanMaker maker(1);
  proto::OrderRun* order = maker.AddStream(0, 1);
  int input = -1;
  for (int i = 0; i < actors; ++i) {
    const int output = maker.AddRegister(0, 1);
    order->add_segment(maker.AddActor(0, input, output));
    input = output;
  }
  return maker.plan;
}

proto::Plan PingPong() {
  PlanMaker maker(2);
  const int ping = maker.AddRegister(0, 1);
  const int first = maker.AddActor(0, -1, ping);
  const int there = maker.AddTransfer(ping, 1, 1, 1);
  const int pong = maker.AddRegister(1, 1);
  maker.AddStream(1, 1)->add_segment(maker.AddActor(1, there, pong));
  const int back = maker.AddTransfer(pong, 0, 1, 1);
  proto::OrderRun* order = maker.AddStream(0, 1);
  order->add_segment(first);
  order->add_segment(maker.AddActor(0, back, maker.AddRegister(0, 1)));
  return maker.Finish(1);
}

proto::Plan Pipeline(int stages, int micro_batches) {
  PlanMaker maker(stages);
  maker.program->set_micro_batches(micro_batches);
  int input = -1;
  for (int stage = 0; stage < stages; ++stage) {
    if (stage > 0) input = maker.AddTransfer(input, stage, 2, micro_batches);
    const int output = maker.AddRegister(stage, 2);
    const int segment = maker.AddActor(stage, input, output);
    maker.AddStream(stage, micro_batches)->add_segment(segment);
    input = output;
  }
  return maker.Finish(micro_batches);
}

}  // namespace oneflow
