#include "compiler/lower/turns.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

bool KeepsOrder(Lane lane) { return lane != Lane::kOffloadOut && lane != Lane::kOffloadIn; }

}  // namespace

bool HasOneBackward(const Lowered& lowered, int stage) {
  int tasks = 0;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (segment.stage() != stage || info.lane != Lane::kCompute) continue;
    const Part part = info.task.part;
    tasks += part == Part::kBackward || part == Part::kWeights ? 1 : 0;
  }
  return tasks == 1;
}

std::vector<int> FindTurns(const Lowered& lowered, bool backward) {
  const proto::Program& program = lowered.program;
  std::map<int, int> writer;  // by register
  std::vector<bool> listed(program.actor_size());
  std::vector<std::vector<int>> next(program.actor_size());
  std::vector<int> waits_for(program.actor_size()), turn(program.actor_size(), -1);
  const auto add = [&](int before, int after) {
    next[before].push_back(after);
    ++waits_for[after];
  };
  std::map<std::tuple<int, Lane, int>, int> last;  // by stage, lane, partner
  for (const Part part : {Part::kBackward, Part::kUpdate}) {
    for (const proto::Segment& segment : program.segment()) {
      const SegmentInfo& info = lowered.segments[segment.id()];
      if (info.task.part != part) continue;
      if (part == Part::kBackward && (!backward || !HasOneBackward(lowered, segment.stage()))) {
        continue;
      }
      for (const int actor : segment.actor()) {
        listed[actor] = true;
        for (const int output : program.actor(actor).output()) writer[output] = actor;
        if (!KeepsOrder(info.lane)) continue;
        const auto [before, first] =
            last.try_emplace({segment.stage(), info.lane, info.partner}, actor);
        if (!first) add(std::exchange(before->second, actor), actor);
      }
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    if (!listed[actor.id()]) continue;
    for (const proto::Input& input : actor.input()) {
      const auto of = writer.find(input.register_());
      if (of != writer.end() && input.initial_fills() == 0) add(of->second, actor.id());
    }
    if (IsReceive(actor.kernel()) && listed[actor.exchange().partner()]) {
      add(actor.exchange().partner(), actor.id());
    }
  }
  std::set<int> ready;
  for (int a = 0; a < program.actor_size(); ++a) {
    if (listed[a] && waits_for[a] == 0) ready.insert(a);
  }
  for (int turns = 0; !ready.empty();) {
    const int actor = *ready.begin();
    ready.erase(ready.begin());
    turn[actor] = turns++;
    for (const int after : next[actor]) {
      if (--waits_for[after] == 0) ready.insert(after);
    }
  }
  return turn;
}

}  // namespace oneflow
