#include "compiler/schedule/prefetch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

using TaskKey = std::tuple<int, Part, int>;  // stage, part, chunk

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
  TaskUses(const std::vector<int>& compute, const std::vector<std::vector<int>>& uses,
           const std::vector<std::vector<int>>& readers, const proto::Program& program) {
    std::map<int, int> position;  // by actor
    for (size_t i = 0; i < compute.size(); ++i) position[compute[i]] = static_cast<int>(i);
    for (const std::vector<int>& actors : uses) {
      Use use{actors};
      for (const int actor : actors) {
        for (const int output : program.actor(actor).output()) {
          for (const int reader : readers[output]) AddReader(reader, position, &use);
        }
      }
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
  static void AddReader(int reader, const std::map<int, int>& position, Use* use) {
    const auto found = position.find(reader);
    if (found != position.end()) {
      use->first = std::min(use->first, found->second);
      use->last = std::max(use->last, found->second);
    } else if (std::find(use->actors.begin(), use->actors.end(), reader) == use->actors.end()) {
      use->far = true;
    }
  }

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

}  // namespace

void AddPrefetch(int ahead, Lowered* lowered) {
  proto::Program& program = lowered->program;
  const std::vector<std::vector<int>> readers = Readers(program);
  const std::map<TaskKey, int> computes = SegmentsOn(Lane::kCompute, *lowered);
  const std::map<TaskKey, int> all_gathers = SegmentsOn(Lane::kGather, *lowered);
  const bool chunks = std::any_of(all_gathers.begin(), all_gathers.end(), [](const auto& gathers) {
    return std::get<2>(gathers.first) > 0;
  });
  for (const auto& [task, id] : all_gathers) {
    proto::Segment* gathers = program.mutable_segment(id);
    const std::vector<int> own = ListActors(*gathers);
    std::vector<std::vector<int>> uses;
    for (const std::vector<int>& use : lowered->gather_uses) {
      if (std::find(own.begin(), own.end(), use[0]) != own.end()) uses.push_back(use);
    }
    // What is gathered is read in its task.
    const std::vector<int> compute = ListActors(program.segment(computes.at(task)));
    TaskUses of_task(compute, uses, readers, program);
    gathers->clear_actor();
    for (const int actor : of_task.Order()) gathers->add_actor(actor);
    // All gathers of a chunk must not be over before compute has begun with it: those of the next
    // chunk would follow.
    size_t size = ahead + 1;
    if (chunks && of_task.CountRing() >= 3) size = std::min(size, of_task.CountRing() - 1);
    const std::vector<Use> ring = of_task.Ring(size);
    // A register has one slot: a use that shares its place with no other waits for itself.
    if (ring.size() <= size) continue;
    for (size_t k = 0; k < ring.size(); ++k) {
      const bool earlier = k < size;
      const Use& left = ring[earlier ? ring.size() - size + k : k - size];
      AddCredit(compute[left.last], ring[k].actors[0], earlier ? 1 : 0, lowered);
    }
  }
}

}  // namespace oneflow
