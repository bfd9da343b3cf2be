#include "compiler/schedule/bound_copies.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/lower/turns.h"
#include "compiler/schedule/use_rings.h"

namespace oneflow {
namespace {

// Variables of an update that are copied together take up to this share of the bytes of the
// largest.
constexpr double kSmall = 0.25;

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

// The copies of updates stand in the order in which what they move is written, or needed: in
// another, compute would wait for a copy behind one that waits for compute.
void OrderUpdateCopies(Lowered* lowered) {
  proto::Program& program = lowered->program;
  const std::vector<int> turn = FindTurns(*lowered, program.micro_batches() == 1);
  std::map<int, int> written, needed;  // turns, by register
  for (const proto::Actor& actor : program.actor()) {
    for (const int output : actor.output()) written[output] = turn[actor.id()];
    for (const proto::Input& input : actor.input()) {
      const auto [first, fresh] = needed.try_emplace(input.register_(), turn[actor.id()]);
      if (!fresh) first->second = std::min(first->second, turn[actor.id()]);
    }
  }
  for (proto::Segment& segment : *program.mutable_segment()) {
    const SegmentInfo& info = lowered->segments[segment.id()];
    const bool out = info.lane == Lane::kOffloadOut, in = info.lane == Lane::kOffloadIn;
    if (info.task.part != Part::kUpdate || (!out && !in)) continue;
    const auto turn_of = [&](int copy) {
      const proto::Actor& actor = program.actor(copy);
      const auto found =
          out ? written.find(actor.input(0).register_()) : needed.find(actor.output(0));
      return found == (out ? written : needed).end() ? -1 : found->second;
    };
    std::vector<int> copies(segment.actor().begin(), segment.actor().end());
    std::stable_sort(copies.begin(), copies.end(),
                     [&](int a, int b) { return turn_of(a) < turn_of(b); });
    segment.clear_actor();
    for (const int copy : copies) segment.add_actor(copy);
    JoinSmall(segment, program, out ? &lowered->copies_out : &lowered->copies_in);
  }
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

// Compute writes what a use copies out only when the use `ahead` + 1 before it is copied.
void AddRingsOut(int ahead, Lowered* lowered) {
  const std::map<TaskKey, std::vector<int>> computes = ActorsOn(Lane::kCompute, *lowered);
  for (const auto& [task, id] : SegmentsOn(Lane::kOffloadOut, *lowered)) {
    const proto::Segment& segment = lowered->program.segment(id);
    const std::set<int> own(segment.actor().begin(), segment.actor().end());
    const std::vector<int> compute = ListWriters(task, computes, *lowered);
    std::map<int, int> written;  // by register: the position of its writer
    for (size_t at = 0; at < compute.size(); ++at) {
      for (const int output : lowered->program.actor(compute[at]).output()) {
        written[output] = static_cast<int>(at);
      }
    }
    std::vector<std::pair<int, int>> ring;  // by use: position of its first writer, its last copy
    for (const std::vector<int>& use : lowered->copies_out) {
      if (!own.contains(use[0])) continue;
      int first = std::numeric_limits<int>::max();
      for (const int copy : use) {
        const auto at = written.find(lowered->program.actor(copy).input(0).register_());
        if (at != written.end()) first = std::min(first, at->second);
      }
      if (first < std::ssize(compute)) ring.emplace_back(first, use.back());
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

void BoundCopies(int ahead, Lowered* lowered) {
  OrderUpdateCopies(lowered);
  AddRings(Lane::kOffloadIn, lowered->copies_in, ahead, lowered);
  AddRingsOut(ahead, lowered);
}

}  // namespace oneflow
