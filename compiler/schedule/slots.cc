#include "compiler/schedule/slots.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/net/marking.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Positions in a stream's step of the firings of each actor, ascending.
std::vector<std::vector<int>> Positions(const PlanNet& net) {
  std::vector<std::vector<int>> at(net.actors.size());
  for (size_t a = 0; a < at.size(); ++a) at[a].reserve(net.actors[a].firings);
  for (const NetStream& stream : net.streams) {
    int position = 0;
    for (int actor : Unrolled(stream)) at[actor].push_back(position++);
  }
  return at;
}

// The writer of a register, or one of its readers, with its firings for each fill.
struct Accessor {
  int stream = 0, actor = 0;
  int64_t firings = 1;
};

class SlotCounter {
 public:
  explicit SlotCounter(const PlanNet& net) : net_(net), at_(Positions(net)) {}

  int CountSlots(const NetRegister& r) const {
    const int64_t fills = net_.actors[r.writer].firings / r.fires_per_fill;
    std::vector<Accessor> accessors;  // by stream
    if (IsBetweenCopies(r)) {
      // Held from the device's writing to its reading: the copies are on streams of their own.
      AddAccessors(*FindSource(r), 1, &accessors);
      for (const NetReader& reader : r.readers) {
        const NetRegister& copy = net_.registers[net_.actor(reader.actor).output(0)];
        AddAccessors(copy, reader.fires_per_read, &accessors);
      }
    } else {
      AddAccessors(r, 1, &accessors);
    }
    std::stable_sort(accessors.begin(), accessors.end(),
                     [](const Accessor& a, const Accessor& b) { return a.stream < b.stream; });
    int64_t slots = 1;
    for (auto first = accessors.begin(); first != accessors.end();) {
      const auto last = std::find_if(first, accessors.end(),
                                     [&](const Accessor& t) { return t.stream != first->stream; });
      slots = std::max(slots, MostHeld({first, last}, fills));
      first = last;
    }
    const bool crosses = accessors.front().stream != accessors.back().stream;
    // A token costs no bytes: whoever made it knows how many there may be.
    if (r.proto->slot_bytes() == 0) slots = std::max<int64_t>(slots, r.proto->slots());
    return static_cast<int>(crosses && FetchedAhead(r, fills) ? slots + 1 : slots);
  }

 private:
  // The writer and the readers of a register, of which `times` fills are one.
  void AddAccessors(const NetRegister& r, int64_t times, std::vector<Accessor>* accessors) const {
    const auto add = [&](int actor, int64_t firings) {
      accessors->push_back({net_.actors[actor].stream, actor, times * firings});
    };
    add(r.writer, r.fires_per_fill);
    for (const NetReader& reader : r.readers) add(reader.actor, reader.fires_per_read);
  }

  // The register that the writer of `r` copies; null: it is no copy of one.
  const NetRegister* FindSource(const NetRegister& r) const {
    const proto::Actor& copy = net_.actor(r.writer);
    if (copy.kernel() != "copy_out" && copy.kernel() != "copy_in") return nullptr;
    const NetRegister& source = net_.registers[copy.input(0).register_()];
    return source.writer < 0 ? nullptr : &source;
  }

  // True if a register of the host's memory stands between the device's memory and itself.
  bool IsBetweenCopies(const NetRegister& r) const {
    return r.proto->memory_kind() == proto::HOST && FindSource(r) != nullptr &&
           !r.readers.empty() &&
           std::all_of(r.readers.begin(), r.readers.end(), [&](const auto& reader) {
             return net_.actor(reader.actor).kernel() == "copy_in";
           });
  }

  // The most fills, which begin and end in order, that one stream holds at once.
  int64_t MostHeld(std::span<const Accessor> accessors, int64_t fills) const {
    const auto begins = [&](int64_t fill) {
      int first = std::numeric_limits<int>::max();
      for (const Accessor& t : accessors) first = std::min(first, at_[t.actor][fill * t.firings]);
      return first;
    };
    const auto ends = [&](int64_t fill) {
      int last = 0;
      for (const Accessor& t : accessors) {
        last = std::max(last, at_[t.actor][(fill + 1) * t.firings - 1]);
      }
      return last;
    };
    int64_t most = 1, over = 0;
    for (int64_t fill = 0; fill < fills; ++fill) {
      for (const int begin = begins(fill); ends(over) < begin;) ++over;
      most = std::max(most, fill + 1 - over);
    }
    return most;
  }

  // A tensor from the host or from another stage is fetched while its reader is busy. A tensor that
  // the device computes needs no such slot: it is written at the end of a segment, and the next
  // one's is not due before that segment is over. Nor does pinned memory: a copy, which is soon
  // over, stands between it and the one who is busy.
  bool FetchedAhead(const NetRegister& r, int64_t fills) const {
    if (r.proto->memory_kind() == proto::HOST) return false;
    const auto on_host = [&](int actor) {
      return net_.streams[net_.actors[actor].stream].proto->kind() == proto::Stream::HOST;
    };
    const NetRegister* source = FindSource(r);
    const bool host = on_host(r.writer) || (source != nullptr && on_host(source->writer));
    return host || (fills > 1 && IsReceive(net_.actor(r.writer).kernel()));
  }

  const PlanNet& net_;
  const std::vector<std::vector<int>> at_;
};

// The register that gets one slot more where a game deadlocks: among those that streams on a cycle
// wait for, the one of the fewest bytes. Other streams wait, too, for example to fetch ahead, but a
// slot for them would not break the cycle. -1: no stream on a cycle waits for a slot.
int RegisterToUnblock(const PlanNet& net, const Marking& marking) {
  int found = -1;
  const auto bytes = [&](int reg) { return net.registers[reg].proto->slot_bytes(); };
  for (int start = 0; start < static_cast<int>(net.streams.size()) && found < 0; ++start) {
    if (marking.done(start)) continue;
    for (int s : WaitsFrom(start, net, marking)) {
      const Wait wait = marking.FindBlocker(marking.next(s));
      if (wait.kind != Wait::kSlot || net.registers[wait.reg].persistent) continue;
      if (found < 0 || bytes(wait.reg) < bytes(found)) found = wait.reg;
    }
  }
  return found;
}

// Plays one step; where it sticks, a register that lacks a slot gets one.
void Unblock(PlanNet* net) {
  Marking marking(*net, Meeting::kFree);
  const auto waits = [&](int s) { return marking.FindBlocker(marking.next(s)); };
  for (bool added = true; added;) {
    for (ReadyStreams ready(*net); !ready.empty();) {
      const int s = ready.Pop();
      bool fired = false;
      for (; !marking.done(s) && !waits(s); fired = true) marking.Fire(s);
      if (fired) ready.Wake(s);
    }
    const int lacking = RegisterToUnblock(*net, marking);
    added = lacking >= 0;
    if (added) ++net->registers[lacking].slots;
  }
}

}  // namespace

absl::Status SetSlots(const proto::Plan& plan, proto::Program* program) {
  ASSIGN_OR_RETURN(PlanNet net, MakePlanNet(plan, *program));
  const SlotCounter counter(net);
  std::vector<int> slots;
  for (const NetRegister& r : net.registers) {
    slots.push_back(r.persistent || r.writer < 0 ? r.proto->slots() : counter.CountSlots(r));
  }
  for (size_t i = 0; i < slots.size(); ++i) net.registers[i].slots = slots[i];
  Unblock(&net);
  for (proto::Register& r : *program->mutable_register_()) {
    r.set_slots(static_cast<int>(net.registers[r.id()].slots));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
