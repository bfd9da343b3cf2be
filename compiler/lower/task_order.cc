#include "compiler/lower/task_order.h"

#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {

TaskOrder::TaskOrder(const Lowered& lowered)
    : lane_(lowered.program.actor_size(), Lane::kCompute),
      task_(lane_.size()),
      position_(lane_.size(), kNowhere),
      use_(lane_.size()) {
  const proto::Program& program = lowered.program;
  const auto block_of = [&](int actor) {
    const proto::ActorFacts& facts = FindFacts(lowered.facts, actor);
    return facts.has_block() ? facts.block() : -1;
  };
  std::map<std::pair<int, Task>, std::vector<int>> runs;  // of a task, by position
  for (const proto::Segment& segment : program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    name_.try_emplace({segment.stage(), info.task}, segment.name());
    for (const int actor : segment.actor()) {
      lane_[actor] = info.lane;
      task_[actor] = info.task;
    }
    if (info.lane != Lane::kCompute) continue;
    name_[{segment.stage(), info.task}] = segment.name();
    // An update may have several segments.
    std::vector<int>& run_of = runs[{segment.stage(), info.task}];
    int run = run_of.empty() ? 0 : run_of.back() + 1, block = -1;
    for (const int actor : segment.actor()) {
      const int of_actor = block_of(actor);
      if (of_actor >= 0 && of_actor != block) ++run, block = of_actor;
      position_[actor] = static_cast<int>(run_of.size());
      run_of.push_back(run);
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    for (const int output : actor.output()) writer_[output] = actor.id();
  }
  // Other lanes, from the last actor to the first: an actor reads what earlier ones write, but for
  // those of buckets and gathers, which are made last. So until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (const proto::Actor& reader : program.actor()) {
      if (position_[reader.id()] == kNowhere) continue;
      for (const proto::Input& input : reader.input()) {
        const auto writer = writer_.find(input.register_());
        if (writer == writer_.end() || lane_[writer->second] == Lane::kCompute ||
            !(task_[writer->second] == task_[reader.id()]) ||
            position_[writer->second] <= position_[reader.id()]) {
          continue;
        }
        position_[writer->second] = position_[reader.id()];
        changed = true;
      }
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    const auto of_task = runs.find({actor.stage(), task_[actor.id()]});
    if (of_task == runs.end() || of_task->second.empty()) continue;
    const std::vector<int>& run = of_task->second;
    const int at = position_[actor.id()];
    use_[actor.id()] = {at == kNowhere ? run.back() : run[at], block_of(actor.id())};
  }
}

int TaskOrder::FindWriter(int reg) const {
  const auto it = writer_.find(reg);
  return it == writer_.end() ? -1 : it->second;
}

std::string TaskOrder::Name(int stage, const Task& task) const {
  const auto it = name_.find({stage, task});
  return it == name_.end() ? TaskName(task, false) : it->second;
}

}  // namespace oneflow
