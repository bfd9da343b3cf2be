#include "compiler/schedule/delay_sums.h"

#include <algorithm>
#include <map>
#include <string>

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Blocks whose full gradients may wait for their reduction beside the one that is computed.
constexpr size_t kAhead = 1;

// The sums of one block, and where compute writes their gradients.
struct Group {
  int block = -1;
  std::vector<int> sums;
  int first = -1, last = -1;  // positions of the writers
};

// Finds what writes the gradients that sums add up.
class GradientFinder {
 public:
  explicit GradientFinder(const Lowered& lowered) : program_(lowered.program) {
    reduces_.resize(program_.actor_size());
    for (const proto::Actor& actor : program_.actor()) {
      for (const int output : actor.output()) writer_[output] = actor.id();
    }
    for (const proto::Segment& segment : program_.segment()) {
      if (lowered.segments[segment.id()].lane != Lane::kReduction) continue;
      for (const int actor : segment.actor()) reduces_[actor] = true;
    }
  }

  int Find(int sum) const {
    int writer = WriterFor(sum);
    while (writer >= 0 && IsLocalBoxing(writer)) writer = WriterFor(writer);
    if (writer < 0 || !reduces_[writer]) return -1;
    while (writer >= 0 && reduces_[writer]) writer = WriterFor(writer);
    return writer;
  }

 private:
  // The actor that writes what `actor` reads, if it is one of this program.
  int WriterFor(int actor) const {
    if (program_.actor(actor).input().empty()) return -1;
    const auto found = writer_.find(program_.actor(actor).input(0).register_());
    return found == writer_.end() ? -1 : found->second;
  }

  bool IsLocalBoxing(int actor) const {
    const std::string& kernel = program_.actor(actor).kernel();
    return IsBoxing(kernel) && !IsExchange(kernel);
  }

  const proto::Program& program_;
  std::map<int, int> writer_;  // by register
  std::vector<bool> reduces_;  // by actor
};

class Delayer {
 public:
  explicit Delayer(Lowered* lowered)
      : lowered_(*lowered),
        program_(lowered->program),
        gradients_(FindReducedGradients(*lowered)) {}

  void Run() {
    for (proto::Segment& segment : *program_.mutable_segment()) {
      const SegmentInfo& info = lowered_.segments[segment.id()];
      const bool backward = info.task.part == Part::kBackward || info.task.part == Part::kWeights;
      if (info.lane == Lane::kCompute && backward) Reorder(&segment);
    }
  }

 private:
  void Reorder(proto::Segment* segment) {
    std::map<int, int> position;  // by actor
    for (int i = 0; i < segment->actor_size(); ++i) position[segment->actor(i)] = i;
    std::vector<Group> groups;
    std::vector<int> others;
    for (const int actor : segment->actor()) {
      const auto gradient = position.find(gradients_[actor]);
      if (gradient == position.end()) {
        others.push_back(actor);
        continue;
      }
      const proto::ActorFacts& facts = FindFacts(lowered_.facts, actor);
      const int block = facts.has_block() ? facts.block() : -1;
      if (groups.empty() || groups.back().block != block || block < 0) {
        groups.push_back({block, {}, gradient->second, gradient->second});
      }
      Group& group = groups.back();
      group.sums.push_back(actor);
      group.first = std::min(group.first, gradient->second);
      group.last = std::max(group.last, gradient->second);
    }
    if (groups.empty()) return;
    // By the position before which a group stands; behind all for the last ones.
    std::multimap<int, const Group*> positions;
    int after = 0;  // groups keep their order
    for (size_t g = 0; g < groups.size(); ++g) {
      const size_t next = g + kAhead + 1;
      const int at = next < groups.size() ? groups[next].first : segment->actor_size();
      after = std::max({after, at, groups[g].last + 1});
      positions.emplace(after, &groups[g]);
    }
    std::vector<int> order;
    auto next_group = positions.begin();
    const auto take = [&](int before) {
      for (; next_group != positions.end() && next_group->first <= before; ++next_group) {
        order.insert(order.end(), next_group->second->sums.begin(), next_group->second->sums.end());
      }
    };
    for (const int actor : others) {
      take(position[actor]);
      order.push_back(actor);
    }
    take(segment->actor_size());
    segment->clear_actor();
    for (const int actor : order) segment->add_actor(actor);
  }

  Lowered& lowered_;
  proto::Program& program_;
  const std::vector<int> gradients_;  // by actor
};

}  // namespace

std::vector<int> FindReducedGradients(const Lowered& lowered) {
  const GradientFinder finder(lowered);
  std::vector<int> gradients(lowered.program.actor_size());
  for (const proto::Actor& actor : lowered.program.actor()) {
    gradients[actor.id()] = finder.Find(actor.id());
  }
  return gradients;
}

void DelaySums(Lowered* lowered) { Delayer(lowered).Run(); }

}  // namespace oneflow
