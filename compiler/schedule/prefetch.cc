#include "compiler/schedule/prefetch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"
#include "compiler/lower/turns.h"

namespace oneflow {
namespace {

using TaskKey = std::tuple<int, Part, int>;  // stage, part, chunk

// Variables of an update that are copied together take up to this share of the bytes of the
// largest.
constexpr double kSmall = 0.25;

// What a use is to the compute of its task.
struct Use {
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
           const std::set<int>& through = {})
      : readers_(readers), program_(program), through_(through) {
    for (size_t i = 0; i < compute.size(); ++i) position_[compute[i]] = static_cast<int>(i);
    for (const std::vector<int>& actors : uses) {
      Use use{actors};
      for (const int actor : actors) AddReaders(actor, &use);
      uses_.push_back(std::move(use));
    }
    std::stable_sort(uses_.begin(), uses_.end(),
                     [](const Use& a, const Use& b) { return a.first < b.first; });
  }

  // The gathers in the order of their uses.
  std::vector<int> Order() const {
    std::vector<int> order;
    for (const Use& use : uses_) order.insert(order.end(), use.actors.begin(), use.actors.end());
    return order;
  }

  // How many uses may stand in a ring.
  size_t CountRing() const {
    return std::count_if(uses_.begin(), uses_.end(), [](const Use& use) { return !use.far; });
  }

  // The uses that take turns in a ring of so many places. A gather would wait for ever for compute
  // to leave a use that it leaves only behind the gather's own.
  std::vector<Use> Ring(size_t size) {
    for (;;) {
      std::vector<Use*> ring;
      for (Use& use : uses_) {
        if (!use.far) ring.push_back(&use);
      }
      size_t k = size;
      while (k < ring.size() && ring[k - size]->last < ring[k]->first) ++k;
      if (k < ring.size()) {
        ring[k - size]->far = true;
        continue;
      }
      std::vector<Use> result;
      for (const Use* use : ring) result.push_back(*use);
      return result;
    }
  }

 private:
  void AddReaders(int actor, Use* use) const {
    for (const int output : program_.actor(actor).output()) {
      for (const int reader : readers_[output]) AddReader(reader, use);
    }
  }

  void AddReader(int reader, Use* use) const {
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
  std::vector<Use> uses_;
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

std::map<TaskKey, int> SegmentsOn(Lane lane, const Lowered& lowered) {
  std::map<TaskKey, int> found;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (info.lane != lane) continue;
    found[{segment.stage(), info.task.part, info.task.chunk}] = segment.id();
  }
  return found;
}

std::vector<int> ListActors(const proto::Segment& segment) {
  return {segment.actor().begin(), segment.actor().end()};
}

// The actors of tasks on a lane, in order. An update may have several segments on one.
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

// `gather` waits until `reader` is done, `lag` micro-batches earlier. A slot beyond the lag is
// enough: compute that reads a use has waited for its gather.
void AddCredit(int reader, int gather, int lag, Lowered* lowered) {
  proto::Program& program = lowered->program;
  proto::Actor* waits = program.mutable_actor(gather);
  proto::Register* credit =
      AddControlRegister(lowered, absl::StrCat(waits->name(), ".credit"), waits->stage());
  credit->set_slots(lag + 1);
  program.mutable_actor(reader)->add_output(credit->id());
  AddControlInput(credit->id(), waits);
  waits->mutable_input(waits->input_size() - 1)->set_initial_fills(lag);
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

// Bounds the uses of a lane that runs ahead of compute.
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
    const std::vector<int> own = ListActors(*gathers);
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
    // Copies of an update, some of which are of no use, keep theirs.
    const std::vector<int> order = of_task.Order();
    if (order.size() == own.size()) {
      gathers->clear_actor();
      for (const int actor : order) gathers->add_actor(actor);
    }
    // All gathers of a chunk must not be over before compute has begun with it: those of the next
    // chunk would follow.
    size_t size = ahead + 1;
    if (chunks && of_task.CountRing() >= 3) size = std::min(size, of_task.CountRing() - 1);
    const std::vector<Use> ring = of_task.Ring(size);
    const bool update = std::get<1>(task) == Part::kUpdate;
    if (update && !ring.empty()) WaitForBackward(std::get<0>(task), ring[0].actors[0], lowered);
    // A register has one slot: a use that shares its place with no other waits for itself.
    if (ring.size() <= size) continue;
    for (size_t k = 0; k < ring.size(); ++k) {
      const bool earlier = k < size;
      if (earlier && update) continue;
      const Use& left = ring[earlier ? ring.size() - size + k : k - size];
      AddCredit(compute[left.last], ring[k].actors[0], earlier ? 1 : 0, lowered);
    }
  }
}

// The first actor of a use on the compute stream that writes what the use copies; -1: none does.
int FirstWriter(const std::vector<int>& copies, const std::vector<int>& compute,
                const proto::Program& program) {
  for (size_t at = 0; at < compute.size(); ++at) {
    for (const int output : program.actor(compute[at]).output()) {
      for (const int copy : copies) {
        if (program.actor(copy).input(0).register_() == output) return static_cast<int>(at);
      }
    }
  }
  return -1;
}

// The positions of a ring: those of the task's own compute; of the update's copies, where a step
// has one micro-batch and the stage one backward task, those of the backward, which writes
// gradients. With more micro-batches a gradient adds up on the device, and no firing but the last
// could wait.
std::vector<int> ListWriters(const TaskKey& task,
                             const std::map<TaskKey, std::vector<int>>& computes,
                             const Lowered& lowered) {
  const auto& [stage, part, chunk] = task;
  std::vector<int> actors;
  const auto add = [&](const TaskKey& key) {
    const auto found = computes.find(key);
    if (found == computes.end()) return;
    actors.insert(actors.end(), found->second.begin(), found->second.end());
  };
  if (part == Part::kUpdate && lowered.program.micro_batches() == 1 &&
      HasOneBackward(lowered, stage)) {
    add({stage, Part::kBackward, 0});
  }
  add(task);
  return actors;
}

int64_t CopiedBytes(int copy, const proto::Program& program) {
  const int first = program.register_(0).id();
  const proto::Actor& actor = program.actor(copy);
  for (const int id : {actor.output(0), actor.input(0).register_()}) {
    if (id >= first) return program.register_(id - first).slot_bytes();
  }
  return 0;
}

// The uses of a segment in its order: of an update, small ones together.
void JoinSmall(const proto::Segment& segment, const proto::Program& program,
               std::vector<std::vector<int>>* uses) {
  std::map<int, int> index;  // by actor, in the segment
  for (int i = 0; i < segment.actor_size(); ++i) index[segment.actor(i)] = i;
  std::map<int, std::vector<int>> own;  // by the first actor's index
  std::erase_if(*uses, [&](std::vector<int>& use) {
    if (!index.contains(use[0])) return false;
    std::sort(use.begin(), use.end(), [&](int a, int b) { return index[a] < index[b]; });
    const int first = index[use[0]];
    own[first] = std::move(use);
    return true;
  });
  const auto bytes_of = [&](const std::vector<int>& use) {
    int64_t bytes = 0;
    for (const int copy : use) bytes += CopiedBytes(copy, program);
    return bytes;
  };
  int64_t largest = 0;
  for (const auto& [first, use] : own) largest = std::max(largest, bytes_of(use));
  std::vector<int> joined;
  for (const auto& [first, use] : own) {
    const int64_t bytes = bytes_of(joined) + bytes_of(use);
    if (!joined.empty() && static_cast<double>(bytes) > kSmall * static_cast<double>(largest)) {
      uses->push_back(std::exchange(joined, {}));
    }
    joined.insert(joined.end(), use.begin(), use.end());
  }
  if (!joined.empty()) uses->push_back(std::move(joined));
}

// The copies of updates, now that compute's order is final. What is copied out stands in an order
// in which it is written: in another, compute would wait for a copy behind one that waits for
// compute.
void OrderUpdateCopies(Lowered* lowered) {
  proto::Program& program = lowered->program;
  if (lowered->copies_out.empty() && lowered->copies_in.empty()) return;
  const std::vector<int> turn = FindTurns(*lowered, program.micro_batches() == 1);
  std::map<int, int> writer;  // by register
  for (const proto::Actor& actor : program.actor()) {
    for (const int output : actor.output()) writer[output] = actor.id();
  }
  for (proto::Segment& segment : *program.mutable_segment()) {
    const SegmentInfo& info = lowered->segments[segment.id()];
    if (info.task.part != Part::kUpdate) continue;
    if (info.lane == Lane::kOffloadOut) {
      std::vector<int> copies = ListActors(segment);
      const auto written = [&](int copy) {
        const auto of = writer.find(program.actor(copy).input(0).register_());
        return of == writer.end() ? -1 : turn[of->second];
      };
      std::stable_sort(copies.begin(), copies.end(),
                       [&](int a, int b) { return written(a) < written(b); });
      segment.clear_actor();
      for (const int copy : copies) segment.add_actor(copy);
      JoinSmall(segment, program, &lowered->copies_out);
    } else if (info.lane == Lane::kOffloadIn) {
      JoinSmall(segment, program, &lowered->copies_in);
    }
  }
}

// Compute writes what a use copies out only when the use `ahead` + 1 before it is copied.
void AddRingsOut(int ahead, Lowered* lowered) {
  const std::map<TaskKey, std::vector<int>> computes = ActorsOn(Lane::kCompute, *lowered);
  for (const auto& [task, id] : SegmentsOn(Lane::kOffloadOut, *lowered)) {
    const std::vector<int> own = ListActors(lowered->program.segment(id));
    const std::vector<int> compute = ListWriters(task, computes, *lowered);
    std::vector<std::pair<int, int>> ring;  // by use: position of its first writer, its last copy
    for (const std::vector<int>& use : lowered->copies_out) {
      if (std::find(own.begin(), own.end(), use[0]) == own.end()) continue;
      const int first = FirstWriter(use, compute, lowered->program);
      if (first >= 0) ring.emplace_back(first, use.back());
    }
    std::sort(ring.begin(), ring.end());
    const size_t size = ahead + 1;
    // A register has one slot: a use that shares its place with no other waits for itself.
    if (ring.size() <= size) continue;
    for (size_t k = 0; k < ring.size(); ++k) {
      const bool earlier = k < size;
      const int copy = ring[earlier ? ring.size() - size + k : k - size].second;
      AddCredit(copy, compute[ring[k].first], earlier ? 1 : 0, lowered);
    }
  }
}

}  // namespace

void AddPrefetch(int ahead, Lowered* lowered) {
  AddRings(Lane::kGather, lowered->gather_uses, ahead, lowered);
}

void BoundCopies(int ahead, Lowered* lowered) {
  OrderUpdateCopies(lowered);
  AddRings(Lane::kOffloadIn, lowered->copies_in, ahead, lowered);
  AddRingsOut(ahead, lowered);
}

}  // namespace oneflow
