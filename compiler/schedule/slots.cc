#include "compiler/schedule/slots.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_net.h"

namespace oneflow {
namespace {

// Positions in a stream's step of the firings of each actor.
std::vector<std::vector<int>> Positions(const PlanNet& net) {
  std::vector<std::vector<int>> at(net.actors.size());
  for (const NetStream& stream : net.streams) {
    for (size_t i = 0; i < stream.firings.size(); ++i)
      at[stream.firings[i]].push_back(static_cast<int>(i));
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
    const bool prefetched = net_.streams[net_.actors[r.writer].stream].proto->host();
    return held.size() > 1 && (fills > 1 || prefetched) ? slots + 1 : slots;
  }

 private:
  const PlanNet& net_;
  const std::vector<std::vector<int>> at_;
};

// Plays one step; where it sticks, the first register that lacks a slot gets one.
class Unblocker {
 public:
  Unblocker(const PlanNet& net, std::vector<int>* slots)
      : net_(net), slots_(*slots), cursor_(net.streams.size(), 0), fired_(net.actors.size(), 0) {}

  void Run() {
    do {
      while (Pass()) {
      }
    } while (AddSlot());
  }

 private:
  bool Pass() {
    bool moved = false;
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      const std::vector<int>& firings = net_.streams[s].firings;
      while (cursor_[s] < firings.size() && Filled(firings[cursor_[s]]) &&
             FullRegister(firings[cursor_[s]]) < 0) {
        ++fired_[firings[cursor_[s]++]];
        moved = true;
      }
    }
    return moved;
  }

  bool AddSlot() {
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      const std::vector<int>& firings = net_.streams[s].firings;
      if (cursor_[s] == firings.size() || !Filled(firings[cursor_[s]])) continue;
      const int full = FullRegister(firings[cursor_[s]]);
      if (full < 0 || net_.registers[full].persistent) continue;
      ++slots_[full];
      return true;
    }
    return false;
  }

  bool Filled(int actor) const {
    for (const proto::Input& input : net_.actor(actor).input()) {
      const NetRegister& r = net_.registers[input.register_()];
      if (r.writer < 0) continue;
      const int64_t fills = fired_[r.writer] / r.proto->fires_per_fill() + input.initial_fills();
      if (fills <= fired_[actor] / input.fires_per_read()) return false;
    }
    return true;
  }

  // An output without a free slot; -1 if all have one.
  int FullRegister(int actor) const {
    for (int id : net_.actor(actor).output()) {
      const NetRegister& r = net_.registers[id];
      if (fired_[actor] % r.proto->fires_per_fill() != 0) continue;
      const int64_t oldest = fired_[actor] / r.proto->fires_per_fill() - slots_[id];
      for (const NetReader& reader : r.readers) {
        if (oldest >= -reader.initial_fills &&
            fired_[reader.actor] / reader.fires_per_read < oldest + 1 + reader.initial_fills) {
          return id;
        }
      }
    }
    return -1;
  }

  const PlanNet& net_;
  std::vector<int>& slots_;  // by register
  std::vector<size_t> cursor_;
  std::vector<int64_t> fired_;
};

}  // namespace

absl::Status SetSlots(const proto::Plan& plan, proto::Program* program) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, *program));
  const SlotCounter counter(net);
  std::vector<int> slots;
  for (const NetRegister& r : net.registers) {
    slots.push_back(r.persistent || r.writer < 0 ? r.proto->slots() : counter.SlotsOf(r));
  }
  Unblocker(net, &slots).Run();
  for (proto::Register& r : *program->mutable_register_()) r.set_slots(slots[r.id()]);
  return absl::OkStatus();
}

}  // namespace oneflow
