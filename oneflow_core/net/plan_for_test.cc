#include "oneflow_core/net/plan_for_test.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/runs.h"
#include "oneflow_core/net/marking.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/plan_format.h"

namespace oneflow {
namespace {

// Exchanges of one step by stage, as a game in which devices meet freely fires them.
std::vector<std::vector<int>> PlayedExchanges(const PlanNet& net, int stages) {
  std::vector<std::vector<int>> played(stages);
  Marking marking(net, Meeting::kFree);
  const auto note = [&](int actor) {
    if (actor < 0 || !net.actors[actor].exchange) return;
    played[net.actors[actor].stage].push_back(actor);
  };
  for (ReadyStreams ready(net); !ready.empty();) {
    const int s = ready.Pop();
    bool fired = false;
    for (; !marking.done(s) && !marking.FindBlocker(marking.next(s)); fired = true) {
      note(marking.next(s));
      note(marking.Partner(marking.next(s)));
      marking.Fire(s);
    }
    if (fired) ready.Wake(s);
  }
  // What the game did not come to, for a proof to refuse.
  for (const NetStream& stream : net.streams) {
    std::vector<int64_t> left(net.actors.size());
    for (size_t a = 0; a < left.size(); ++a) left[a] = marking.fired(static_cast<int>(a));
    for (const int actor : Unrolled(stream)) {
      if (--left[actor] < 0) note(actor);
    }
  }
  return played;
}

}  // namespace

PlanBuilder::PlanBuilder(const std::vector<std::pair<std::string, int>>& mesh) {
  plan_.set_version(kPlanVersion);
  plan_.set_kernel_threads(1);
  plan_.set_launch_queue(1);
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
  for (const In& in : inputs) AddInput(actor->id(), in);
  for (int id : outputs) actor->add_output(id);
  return actor->id();
}

void PlanBuilder::AddInput(int actor, const In& in) {
  proto::Input* input = program().mutable_actor(actor)->add_input();
  input->set_register_(in.reg);
  input->set_fires_per_read(in.fires_per_read);
  input->set_initial_fills(in.initial_fills);
}

// Its index in the plan, which names it once.
int PlanBuilder::FindOrAddGroup(const proto::Group& group) {
  for (int i = 0; i < plan_.group_size(); ++i) {
    if (plan_.group(i).name() == group.name()) return i;
  }
  *plan_.add_group() = group;
  return plan_.group_size() - 1;
}

int PlanBuilder::AllReduce(const std::string& name, int stage, const std::vector<int>& axes,
                           const In& in, int out) {
  const int id = Actor(name, stage, {in}, {out});
  proto::Actor& actor = *program().mutable_actor(id);
  actor.set_kernel("all_reduce");
  actor.mutable_boxing()->set_reduce(proto::Boxing::SUM);
  proto::Group group;
  for (const int axis : axes) {
    actor.mutable_boxing()->add_reduce_axis(axis);
    group.add_axis(axis);
    absl::StrAppend(group.mutable_name(), group.name().empty() ? "" : ",",
                    plan_.mesh().axis(axis).name());
  }
  actor.mutable_exchange()->set_group(FindOrAddGroup(group));
  return id;
}

PlanBuilder::Pair PlanBuilder::SendReceive(const std::string& name, const In& from, int to) {
  const int there = At(from.reg).stage(), here = At(to).stage();
  const Pair pair{Actor(name + ".send", there, {from}, {}), Actor(name, here, {}, {to})};
  proto::Group group;
  group.set_name(absl::StrCat("stage ", there, " to ", here));
  group.mutable_stages()->set_from(there);
  group.mutable_stages()->set_to(here);
  const int index = FindOrAddGroup(group);
  for (const int id : {pair.send, pair.receive}) {
    proto::Actor& actor = *program().mutable_actor(id);
    actor.set_kernel(id == pair.send ? "send" : "receive");
    actor.mutable_exchange()->set_group(index);
    actor.mutable_exchange()->set_partner(id == pair.send ? pair.receive : pair.send);
  }
  return pair;
}

int PlanBuilder::Segment(const std::string& name, int stage, const std::vector<int>& actors) {
  proto::Segment* segment = program().add_segment();
  segment->set_id(program().segment_size() - 1);
  segment->set_name(name);
  segment->set_stage(stage);
  for (int actor : actors) segment->add_actor(actor);
  return segment->id();
}

void PlanBuilder::Stream(const std::string& name, int stage, const Order& segments) {
  proto::Stream* stream = program().add_stream();
  stream->set_id(program().stream_size() - 1);
  stream->set_name(name);
  stream->set_stage(stage);
  bool exchanges = absl::StartsWith(name, "copy") || absl::StartsWith(name, "send") ||
                   absl::StartsWith(name, "receive");
  for (const auto& [ids, repeat] : segments) {
    proto::OrderRun* run = stream->add_order();
    for (const int id : ids) {
      run->add_segment(id);
      for (const int actor : program().segment(id).actor()) {
        exchanges = exchanges && program().actor(actor).has_exchange();
      }
    }
    run->set_repeat(repeat);
  }
  if (exchanges) stream->set_kind(proto::Stream::EXCHANGE);
  if (absl::StartsWith(name, "host")) stream->set_kind(proto::Stream::HOST);
  if (absl::StartsWith(name, "offload")) stream->set_kind(proto::Stream::COPY);
}

void PlanBuilder::Issue(int stage, const Order& actors) {
  proto::IssueOrder& issue = stated_.emplace_back();
  issue.set_stage(stage);
  for (const auto& [ids, repeat] : actors) {
    proto::ActorRun* run = issue.add_run();
    run->mutable_actor()->Add(ids.begin(), ids.end());
    run->set_repeat(repeat);
  }
}

void PlanBuilder::AddIssues() {
  program().clear_issue();
  const absl::StatusOr<PlanNet> net = MakePlanNet(plan_, program());
  if (!net.ok()) return;
  const auto played = PlayedExchanges(*net, plan_.memory_size());
  for (int stage = 0; stage < plan_.memory_size(); ++stage) {
    if (played[stage].empty()) continue;
    proto::IssueOrder& issue = *program().add_issue();
    issue.set_stage(stage);
    for (const Run& run : FindRuns(played[stage])) {
      proto::ActorRun& coded = *issue.add_run();
      for (size_t i = 0; i < run.length; ++i) coded.add_actor(played[stage][run.begin + i]);
      coded.set_repeat(static_cast<int>(run.repeat));
    }
  }
  for (const proto::IssueOrder& stated : stated_) {
    for (proto::IssueOrder& issue : *program().mutable_issue()) {
      if (issue.stage() == stated.stage()) issue = stated;
    }
  }
}

proto::Plan PlanBuilder::Finish() {
  const int stages = plan_.memory_size();
  const auto& registers = program().register_();
  const bool host = std::any_of(registers.begin(), registers.end(), [](const proto::Register& r) {
    return r.memory_kind() == proto::HOST;
  });
  for (int stage = 0; host && stage < stages; ++stage) {
    proto::StageMemory* memory = plan_.add_memory();
    memory->set_stage(stage);
    memory->set_kind(proto::HOST);
  }
  for (proto::Register& r : *program().mutable_register_()) {
    proto::StageMemory& memory = *plan_.mutable_memory(ArenaIndex(r, stages));
    if (r.offset() < 0) r.set_offset(memory.register_bytes());
    memory.set_register_bytes(std::max(memory.register_bytes(), BuffersEnd(r)));
  }
  for (proto::StageMemory& memory : *plan_.mutable_memory())
    memory.set_arena_bytes(memory.register_bytes());
  AddIssues();
  return plan_;
}

}  // namespace oneflow
