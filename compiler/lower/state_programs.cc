#include "compiler/lower/state_programs.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

class StateProgram {
 public:
  StateProgram(const proto::Plan& plan, std::string name, std::string kernel, Lane lane)
      : kernel_(std::move(kernel)), lane_(lane), reads_(lane == Lane::kHostOut) {
    const std::vector<int> blocks = VariableBlocks(plan);
    for (int i = 0; i < plan.variable_size(); ++i) block_[plan.variable(i).name()] = blocks[i];
    lowered_.program.set_name(std::move(name));
    lowered_.program.set_micro_batches(1);
    lowered_.program.set_micro_batch_size(1);
  }

  proto::Actor* Add(const proto::Variable& variable, const proto::Register& r) {
    proto::Actor* actor = lowered_.program.add_actor();
    actor->set_id(lowered_.program.actor_size() - 1);
    actor->set_name(absl::StrCat(r.name(), ".", kernel_));
    actor->set_kernel(kernel_);
    actor->set_stage(r.stage());
    (*actor->mutable_attr())["name"].set_s(variable.name());
    if (const int block = block_.at(variable.name()); block >= 0) {
      MutableFacts(actor->id(), &lowered_.facts)->set_block(block);
    }
    // Writers fill every slot, so all versions of a weight begin equal. A reader takes the newest.
    const int times = reads_ ? 1 : r.slots();
    FindSegment(r.stage(), times)->add_actor(actor->id());
    return actor;
  }

  Lowered Take() { return std::move(lowered_); }

 private:
  proto::Segment* FindSegment(int stage, int times) {
    const auto [it, fresh] =
        segment_.emplace(std::pair(stage, times), lowered_.program.segment_size());
    if (fresh) {
      proto::Segment* segment = lowered_.program.add_segment();
      segment->set_id(it->second);
      segment->set_name(lowered_.program.name());
      segment->set_stage(stage);
      lowered_.segments.push_back({lane_, {Part::kUpdate}, times});
    }
    return lowered_.program.mutable_segment(it->second);
  }

  const std::string kernel_;
  const Lane lane_;
  const bool reads_;
  std::map<std::string, int> block_;            // of variables
  std::map<std::pair<int, int>, int> segment_;  // (stage, firings a step) -> segment
  Lowered lowered_;
};

}  // namespace

std::vector<int64_t> ReplicatedAxes(const proto::Mesh& mesh, int stage_axis,
                                    const proto::Layout& layout) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis < mesh.axis_size(); ++axis) {
    bool split = axis == stage_axis;
    for (const proto::Layout::Split& c : layout.split()) split = split || c.axis() == axis;
    if (!split) axes.push_back(axis);
  }
  return axes;
}

Lowered InitProgram(const proto::Plan& plan) {
  StateProgram program(plan, "init", "init_variable", Lane::kHostIn);
  for (const proto::Variable& v : plan.variable()) {
    for (int id : v.register_()) {
      proto::Actor* actor = program.Add(v, plan.persistent(id));
      (*actor->mutable_attr())["init"].set_s(v.init());
      (*actor->mutable_attr())["init_value"].set_f(v.init_value());
      if (v.dtype() == proto::BF16) (*actor->mutable_attr())["narrow"].set_b(true);
      actor->add_output(id);
    }
  }
  return program.Take();
}

Lowered SaveProgram(const proto::Plan& plan) {
  StateProgram program(plan, "save", "save_slice", Lane::kHostOut);
  for (const proto::Variable& v : plan.variable()) {
    if (v.frozen()) continue;  // its base has it
    proto::Actor* actor = program.Add(v, plan.persistent(v.register_(0)));
    proto::Input* input = actor->add_input();
    input->set_register_(v.register_(0));
    input->set_fires_per_read(1);
    input->set_initial_fills(1);
    auto* axes = (*actor->mutable_attr())["replicated_axes"].mutable_ints();
    for (int64_t axis : ReplicatedAxes(plan.mesh(), plan.stage_axis(), v.layout()))
      axes->add_value(axis);
  }
  return program.Take();
}

Lowered LoadProgram(const proto::Plan& plan) {
  StateProgram program(plan, "load", "load_slice", Lane::kHostIn);
  for (const proto::Variable& v : plan.variable()) {
    for (int id : v.register_()) program.Add(v, plan.persistent(id))->add_output(id);
  }
  return program.Take();
}

}  // namespace oneflow
