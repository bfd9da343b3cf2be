#include "compiler/schedule/slots.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/marking.h"
#include "oneflow_core/plan/plan_net.h"

namespace oneflow {
namespace {

// Positions in a stream's step of the firings of each actor.
std::vector<std::vector<int>> Positions(const PlanNet& net) {
  std::vector<std::vector<int>> at(net.actors.size());
  for (const NetStream& stream : net.streams) {
    int position = 0;
    for (int actor : Unrolled(stream)) at[actor].push_back(position++);
  }
  return at;
}

using Span = std::pair<int, int>;  // first and last position, both included

int MostAtOnce(const std::vector<Span>& spans) {
  std::vector<std::pair<int, int>> events;
  for (const auto& [begin, end] : spans) {
    events.emplace_back(begin, 1);
    events.emplace_back(end + 1, -1);
  }
  std::sort(events.begin(), events.end());  // at one position ends come first
  int now = 0, most = 1;
  for (const auto& [position, change] : events) most = std::max(most, now += change);
  return most;
}

class SlotCounter {
 public:
  explicit SlotCounter(const PlanNet& net) : net_(net), at_(Positions(net)) {}

  int SlotsOf(const NetRegister& r) const {
    const int64_t fills = net_.actors[r.writer].firings / r.proto->fires_per_fill();
    // For each stream that touches the register, what it holds of each fill.
    std::map<int, std::vector<Span>> held;
    for (int64_t j = 0; j < fills; ++j) {
      std::map<int, Span> span;
      const auto touch = [&](int actor, int64_t first, int64_t last) {
        const Span s{at_[actor][first], at_[actor][last]};
        const auto [it, fresh] = span.emplace(net_.actors[actor].stream, s);
        if (!fresh)
          it->second = {std::min(it->second.first, s.first), std::max(it->second.second, s.second)};
      };
      const int64_t f = r.proto->fires_per_fill();
      touch(r.writer, j * f, (j + 1) * f - 1);
      for (const NetReader& reader : r.readers) {
        touch(reader.actor, j * reader.fires_per_read, (j + 1) * reader.fires_per_read - 1);
      }
      for (const auto& [stream, s] : span) held[stream].push_back(s);
    }
    int slots = 1;
    for (const auto& [stream, spans] : held) slots = std::max(slots, MostAtOnce(spans));
    return held.size() > 1 && FetchedAhead(r, fills) ? slots + 1 : slots;
  }

 private:
  // What comes from the host or from another stage is fetched while its reader is busy. What the
  // compute stream writes for others needs no such slot: it is written at the end of a segment, and
  // the next one's is not due before that segment is over.
  bool FetchedAhead(const NetRegister& r, int64_t fills) const {
    const proto::Stream& writer = *net_.streams[net_.actors[r.writer].stream].proto;
    return writer.host() || (fills > 1 && writer.name() != "compute");
  }

  const PlanNet& net_;
  const std::vector<std::vector<int>> at_;
};

// Plays one step; where it sticks, the first register that lacks a slot gets one.
void Unblock(PlanNet* net) {
  Marking marking(*net);
  const auto waits = [&](int s) { return marking.BlockerOf(marking.next(s)); };
  const int streams = static_cast<int>(net->streams.size());
  for (bool added = true; added;) {
    for (ReadyStreams ready(*net); !ready.empty();) {
      const int s = ready.Pop();
      bool fired = false;
      for (; !marking.done(s) && !waits(s); fired = true) marking.Fire(s);
      if (fired) ready.Wake(s);
    }
    added = false;
    for (int s = 0; s < streams && !added; ++s) {
      if (marking.done(s)) continue;
      const Wait wait = waits(s);
      if (!wait.for_slot || net->registers[wait.reg].persistent) continue;
      ++net->registers[wait.reg].slots;
      added = true;
    }
  }
}

}  // namespace

absl::Status SetSlots(const proto::Plan& plan, proto::Program* program) {
  ASSIGN_OR_RETURN(PlanNet net, MakePlanNet(plan, *program));
  const SlotCounter counter(net);
  std::vector<int> slots;
  for (const NetRegister& r : net.registers) {
    slots.push_back(r.persistent || r.writer < 0 ? r.proto->slots() : counter.SlotsOf(r));
  }
  for (size_t i = 0; i < slots.size(); ++i) net.registers[i].slots = slots[i];
  Unblock(&net);
  for (proto::Register& r : *program->mutable_register_()) {
    r.set_slots(static_cast<int>(net.registers[r.id()].slots));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
