#include "compiler/schedule/use_rings.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

// What a use is to the compute of its task.
struct WeightUse {
  std::vector<int> actors;                      // its casts and gathers, in order
  int first = std::numeric_limits<int>::max();  // its readers, by their size in compute's order
  int last = -1;
  bool far = false;  // has no place in the ring
};

// The uses of one task.
class TaskUses {
 public:
  // `compute`: the actors of the task on the compute stream, in order. `readers`: by register.
  // Compute may read by way of other actors of the task, `through`.
  TaskUses(const std::vector<int>& compute, const std::vector<std::vector<int>>& uses,
           const std::vector<std::vector<int>>& readers, const proto::Program& program,
           const std::set<int>& through)
      : readers_(readers), program_(program), through_(through) {
    for (size_t i = 0; i < compute.size(); ++i) position_[compute[i]] = static_cast<int>(i);
    for (const std::vector<int>& actors : uses) {
      WeightUse use{actors};
      for (const int actor : actors) AddReaders(actor, &use);
      uses_.push_back(std::move(use));
    }
    KeepBeforeReaders();
    std::stable_sort(uses_.begin(), uses_.end(),
                     [](const WeightUse& a, const WeightUse& b) { return a.first < b.first; });
  }

  // The gathers in the order of their uses.
  std::vector<int> Order() const {
    std::vector<int> order;
    for (const WeightUse& use : uses_)
      order.insert(order.end(), use.actors.begin(), use.actors.end());
    return order;
  }

  // How many uses may stand in a ring.
  size_t CountRing() const {
    return std::count_if(uses_.begin(), uses_.end(), [](const WeightUse& use) { return !use.far; });
  }

  // The uses that take turns in a ring of so many places. A gather would wait for ever for compute
  // to leave a use that it leaves only behind the gather's own.
  std::vector<WeightUse> Ring(size_t size) {
    for (;;) {
      std::vector<WeightUse*> ring;
      for (WeightUse& use : uses_) {
        if (!use.far) ring.push_back(&use);
      }
      size_t k = size;
      while (k < ring.size() && ring[k - size]->last < ring[k]->first) ++k;
      if (k < ring.size()) {
        ring[k - size]->far = true;
        continue;
      }
      std::vector<WeightUse> result;
      for (const WeightUse* use : ring) result.push_back(*use);
      return result;
    }
  }

 private:
  // A use whose cast another use reads stays before that one.
  void KeepBeforeReaders() {
    std::map<int, size_t> use_of;  // by actor
    for (size_t k = uses_.size(); k-- > 0;) {
      WeightUse& use = uses_[k];
      for (const int actor : use.actors) {
        use_of[actor] = k;
        for (const int output : program_.actor(actor).output()) {
          for (const int reader : readers_[output]) {
            const auto found = use_of.find(reader);
            if (found != use_of.end()) use.first = std::min(use.first, uses_[found->second].first);
          }
        }
      }
    }
  }

  void AddReaders(int actor, WeightUse* use) const {
    for (const int output : program_.actor(actor).output()) {
      for (const int reader : readers_[output]) AddReader(reader, use);
    }
  }

  void AddReader(int reader, WeightUse* use) const {
    const auto found = position_.find(reader);
    if (found != position_.end()) {
      use->first = std::min(use->first, found->second);
      use->last = std::max(use->last, found->second);
    } else if (through_.contains(reader)) {
      AddReaders(reader, use);
    } else if (std::find(use->actors.begin(), use->actors.end(), reader) == use->actors.end()) {
      use->far = true;
    }
  }

  const std::vector<std::vector<int>>& readers_;
  const proto::Program& program_;
  const std::set<int>& through_;
  std::map<int, int> position_;  // on the compute stream, by actor
  std::vector<WeightUse> uses_;
};

// By register: the actors that read it.
std::vector<std::vector<int>> Readers(const proto::Program& program) {
  int registers = 0;
  for (const proto::Register& r : program.register_()) registers = std::max(registers, r.id() + 1);
  std::vector<std::vector<int>> readers(registers);
  for (const proto::Actor& actor : program.actor()) {
    for (const proto::Input& input : actor.input()) {
      if (input.register_() < registers) readers[input.register_()].push_back(actor.id());
    }
  }
  return readers;
}

// The first copy for the update waits for the stage's backward: what it brings would take memory
// that the backward needs.
void WaitForBackward(int stage, int copy, Lowered* lowered) {
  const std::string name = absl::StrCat("backward_over.", stage, ".copies");
  const int over = AddControlRegister(lowered, name, stage)->id();
  proto::Actor* head = AddOrderOnlyActor(lowered, name, stage);
  head->add_output(over);
  proto::Segment* update = FirstUpdate(lowered, stage);
  const proto::Segment old = *update;
  update->clear_actor();
  update->add_actor(head->id());
  update->mutable_actor()->MergeFrom(old.actor());
  AddControlInput(over, lowered->program.mutable_actor(copy));
}

// The actors of a task on lanes of exchanges of its own stage.
std::set<int> ActorsBetween(const TaskKey& task, const Lowered& lowered) {
  std::set<int> between;
  for (const Lane lane : {Lane::kGather, Lane::kCollective, Lane::kGradient}) {
    const std::map<TaskKey, std::vector<int>> actors = ActorsOn(lane, lowered);
    const auto found = actors.find(task);
    if (found != actors.end()) between.insert(found->second.begin(), found->second.end());
  }
  return between;
}

}  // namespace

std::map<TaskKey, int> SegmentsOn(Lane lane, const Lowered& lowered) {
  std::map<TaskKey, int> found;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (info.lane != lane) continue;
    found[{segment.stage(), info.task.part, info.task.chunk}] = segment.id();
  }
  return found;
}

std::map<TaskKey, std::vector<int>> ActorsOn(Lane lane, const Lowered& lowered) {
  std::map<TaskKey, std::vector<int>> found;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (info.lane != lane) continue;
    std::vector<int>& actors = found[{segment.stage(), info.task.part, info.task.chunk}];
    actors.insert(actors.end(), segment.actor().begin(), segment.actor().end());
  }
  return found;
}

// A slot beyond the lag is enough: who is done with a use has waited for what the credit lets go
// on.
void AddCredit(int over, int waits, int lag, Lowered* lowered) {
  proto::Program& program = lowered->program;
  proto::Actor* waiting = program.mutable_actor(waits);
  proto::Register* credit =
      AddControlRegister(lowered, absl::StrCat(waiting->name(), ".credit"), waiting->stage());
  credit->set_slots(lag + 1);
  program.mutable_actor(over)->add_output(credit->id());
  AddControlInput(credit->id(), waiting);
  waiting->mutable_input(waiting->input_size() - 1)->set_initial_fills(lag);
}

void AddRings(Lane lane, const std::vector<std::vector<int>>& all_uses, int ahead,
              Lowered* lowered) {
  proto::Program& program = lowered->program;
  const std::vector<std::vector<int>> readers = Readers(program);
  const std::map<TaskKey, std::vector<int>> computes = ActorsOn(Lane::kCompute, *lowered);
  const std::map<TaskKey, int> all_gathers = SegmentsOn(lane, *lowered);
  const bool chunks = std::any_of(all_gathers.begin(), all_gathers.end(), [](const auto& gathers) {
    return std::get<2>(gathers.first) > 0;
  });
  for (const auto& [task, id] : all_gathers) {
    proto::Segment* gathers = program.mutable_segment(id);
    const std::vector<int> own(gathers->actor().begin(), gathers->actor().end());
    std::vector<std::vector<int>> uses;
    for (const std::vector<int>& use : all_uses) {
      if (std::find(own.begin(), own.end(), use[0]) != own.end()) uses.push_back(use);
    }
    if (uses.empty()) continue;
    // What is gathered is read in its task.
    const std::vector<int>& compute = computes.at(task);
    const std::set<int> through =
        lane == Lane::kGather ? std::set<int>() : ActorsBetween(task, *lowered);
    TaskUses of_task(compute, uses, readers, program, through);
    const std::vector<int> order = of_task.Order();
    if (order.size() == own.size()) {
      gathers->clear_actor();
      for (const int actor : order) gathers->add_actor(actor);
    }
    // All gathers of a chunk must not be over before compute has begun with it: those of the next
    // chunk would follow.
    size_t size = ahead + 1;
    if (chunks && of_task.CountRing() >= 3) size = std::min(size, of_task.CountRing() - 1);
    const std::vector<WeightUse> ring = of_task.Ring(size);
    const bool update = std::get<1>(task) == Part::kUpdate;
    if (update && !ring.empty()) WaitForBackward(std::get<0>(task), ring[0].actors[0], lowered);
    // A register has one slot: a use that shares its place with no other waits for itself.
    if (ring.size() <= size) continue;
    for (size_t k = 0; k < ring.size(); ++k) {
      const bool earlier = k < size;
      if (earlier && update) continue;
      const WeightUse& left = ring[earlier ? ring.size() - size + k : k - size];
      AddCredit(compute[left.last], ring[k].actors[0], earlier ? 1 : 0, lowered);
    }
  }
}

}  // namespace oneflow
