#include "oneflow_core/plan/happens_before.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int64_t SlotOf(int64_t fill, int64_t slots) { return ((fill % slots) + slots) % slots; }

}  // namespace

HappensBefore::HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                             int64_t steps)
    : net_(&net),
      axes_(&axes),
      interests_(&interests),
      reader_index_(net.actors.size()),
      marking_(net, steps),
      count_(net.streams.size(), 0),
      state_(net.registers.size()),
      owner_(net.plan->memory_size()) {
  for (size_t s = 0; s < net.streams.size(); ++s) clock_.push_back(NewClock(static_cast<int>(s)));
  for (size_t i = 0; i < net.registers.size(); ++i) Prepare(net.registers[i], &state_[i]);
}

void HappensBefore::Prepare(const NetRegister& r, Owned* state) {
  state->first_valid_fill = std::numeric_limits<int64_t>::min();
  if (r.writer >= 0) state->last_write = {0, net_->actors[r.writer].stream, 0, r.writer};
  state->returned.resize(r.readers.size());
  for (size_t k = 0; k < r.readers.size(); ++k) {
    const NetReader& reader = r.readers[k];
    std::vector<int>& of = reader_index_[reader.actor];
    of.resize(net_->actor(reader.actor).input_size());
    of[reader.input] = static_cast<int>(k);
    const int stream = net_->actors[reader.actor].stream;
    state->last_read.push_back({0, stream, axes_->SetOf(reader.along), reader.actor});
    if (r.writer < 0 || !Crosses(r, reader)) continue;
    state->returned[k].assign(r.slots, NewClock(stream));
    if (state->filled.empty()) {
      state->filled.assign(r.slots, NewClock(net_->actors[r.writer].stream));
    }
  }
}

// Whether the edge leaves the stream of the device, so that program order does not carry it.
bool HappensBefore::Crosses(const NetRegister& r, const NetReader& reader) const {
  return !reader.along.empty() ||
         net_->actors[r.writer].stream != net_->actors[reader.actor].stream;
}

Clock HappensBefore::NewClock(int stream) const {
  return {axes_->axes(), static_cast<int>(interests_->of(StageOf(stream)).size())};
}

void HappensBefore::Learn(int stream, const Clock& other, int from_stream,
                          const std::vector<int>& along) {
  clock_[stream].Merge(other, axes_->SetOf(along),
                       interests_->Common(StageOf(from_stream), StageOf(stream)));
}

absl::Status HappensBefore::Fire(int stream) {
  const int actor = marking_.next(stream);
  const proto::Actor& a = net_->actor(actor);
  // Counted before the firing writes: an actor must not write over what it reads.
  ++count_[stream];
  for (int i = 0; i < a.input_size(); ++i) RETURN_IF_ERROR(Read(stream, actor, i));
  for (int id : a.output()) TakeCredits(stream, actor, id);
  for (int id : a.output()) RETURN_IF_ERROR(Write(stream, actor, id));
  clock_[stream].Complete(interests_->IndexOf(StageOf(stream), stream), count_[stream]);
  for (int i = 0; i < a.input_size(); ++i) Return(stream, actor, i);
  for (int id : a.output()) Publish(stream, actor, id);
  marking_.Fire(stream);
  return absl::OkStatus();
}

absl::Status HappensBefore::Read(int stream, int actor, int i) {
  const proto::Input& input = net_->actor(actor).input(i);
  const NetRegister& r = net_->registers[input.register_()];
  Owned& state = state_[input.register_()];
  state.last_read[reader_index_[actor][i]].count = count_[stream];
  const int64_t fill = marking_.fired(actor) / input.fires_per_read() - input.initial_fills();
  if (fill < state.first_valid_fill) {
    return absl::FailedPreconditionError(
        absl::StrCat(Program(), net_->NameOf(actor), " reads ", r.proto->name(), " after ",
                     net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  if (r.writer < 0 || fill < 0) return absl::OkStatus();
  const NetReader& reader = r.readers[reader_index_[actor][i]];
  if (Crosses(r, reader)) {
    Learn(stream, state.filled[SlotOf(fill, r.slots)], net_->actors[r.writer].stream, reader.along);
  }
  return absl::OkStatus();
}

// A fill may start only after the readers have returned the slot's old one: that is knowledge too.
void HappensBefore::TakeCredits(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  const int64_t n = marking_.fired(actor);
  if (n % r.proto->fires_per_fill() != 0) return;
  const int64_t old = n / r.proto->fires_per_fill() - r.slots;
  for (size_t k = 0; k < r.readers.size(); ++k) {
    const NetReader& reader = r.readers[k];
    if (old < -reader.initial_fills || !Crosses(r, reader)) continue;
    Learn(stream, state_[id].returned[k][SlotOf(old, r.slots)], net_->actors[reader.actor].stream,
          reader.along);
  }
}

absl::Status HappensBefore::Write(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  Owned& state = state_[id];
  const int64_t n = marking_.fired(actor), per_fill = r.proto->fires_per_fill();
  if (n / per_fill < state.first_valid_fill && n % per_fill != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        Program(), net_->NameOf(actor), " accumulates into ", r.proto->name(), " after ",
        net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  RETURN_IF_ERROR(TakeBytes(stream, actor, id, n / per_fill));
  state.last_write.count = count_[stream];
  return absl::OkStatus();
}

// Makes `id` the owner of its bytes; every register that loses some must be at rest.
absl::Status HappensBefore::TakeBytes(int stream, int actor, int id, int64_t fill) {
  const NetRegister& r = net_->registers[id];
  if (r.proto->slot_bytes() == 0) return absl::OkStatus();
  const int64_t begin = r.proto->offset(), end = begin + r.slots * r.proto->slot_bytes();
  std::map<int64_t, Interval>& owner = owner_[r.proto->stage()];
  auto it = owner.upper_bound(begin);
  if (it != owner.begin() && std::prev(it)->second.end > begin) --it;
  if (it != owner.end() && it->first <= begin && it->second.end >= end && it->second.reg == id) {
    return absl::OkStatus();
  }
  while (it != owner.end() && it->first < end) {
    const int64_t b = it->first;
    const Interval old = it->second;
    if (old.reg != id) RETURN_IF_ERROR(Evict(stream, actor, old.reg, id));
    it = owner.erase(it);
    if (b < begin) owner[b] = {begin, old.reg};
    if (old.end > end) owner[end] = {old.end, old.reg};
  }
  owner[begin] = {end, id};
  // What the register held before it lost its bytes is gone.
  if (state_[id].evicted_by >= 0) state_[id].first_valid_fill = fill;
  return absl::OkStatus();
}

absl::Status HappensBefore::Evict(int stream, int actor, int loser, int winner) {
  Owned& state = state_[loser];
  RETURN_IF_ERROR(CheckOver(stream, actor, state.last_write, "writes", loser, winner));
  for (const Access& access : state.last_read) {
    RETURN_IF_ERROR(CheckOver(stream, actor, access, "reads", loser, winner));
  }
  state.evicted_by = winner;
  state.first_valid_fill = std::numeric_limits<int64_t>::max();
  return absl::OkStatus();
}

absl::Status HappensBefore::CheckOver(int stream, int actor, const Access& access,
                                      std::string_view verb, int loser, int winner) const {
  if (access.count == 0) return absl::OkStatus();
  const int index = interests_->IndexOf(StageOf(stream), access.stream);
  if (clock_[stream].known(access.along, index) >= access.count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), "registers ", net_->registers[loser].proto->name(), " and ",
      net_->registers[winner].proto->name(), " of stage ", net_->registers[winner].proto->stage(),
      " share bytes, but ", net_->NameOf(actor), " may write while ", net_->NameOf(access.actor),
      " still ", ToAbsl(verb)));
}

void HappensBefore::Return(int stream, int actor, int i) {
  const proto::Input& input = net_->actor(actor).input(i);
  const NetRegister& r = net_->registers[input.register_()];
  std::vector<Clock>& returned = state_[input.register_()].returned[reader_index_[actor][i]];
  const int64_t n = marking_.fired(actor);
  if ((n + 1) % input.fires_per_read() != 0 || returned.empty()) return;
  const int64_t fill = n / input.fires_per_read() - input.initial_fills();
  returned[SlotOf(fill, r.slots)] = clock_[stream];
}

void HappensBefore::Publish(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  const int64_t n = marking_.fired(actor), per_fill = r.proto->fires_per_fill();
  if ((n + 1) % per_fill != 0 || state_[id].filled.empty()) return;
  state_[id].filled[SlotOf(n / per_fill, r.slots)] = clock_[stream];
}

std::string HappensBefore::Program() const {
  return absl::StrCat("program ", net_->program->name(), ": ");
}

template <typename Self, typename Fn>
void HappensBefore::ForCounts(Self& self, Fn fn) {
  const auto clock = [&](auto& c, int stream) {
    const std::vector<int>& streams = self.interests_->of(self.StageOf(stream));
    for (size_t i = 0; i < c.counts().size(); ++i) {
      fn(c.counts()[i], streams[i % streams.size()], true);
    }
  };
  const auto slots = [&](auto& clocks, int64_t oldest, int stream) {
    const int64_t n = static_cast<int64_t>(clocks.size());
    for (int64_t i = 0; i < n; ++i) clock(clocks[SlotOf(oldest + i, n)], stream);
  };
  for (size_t s = 0; s < self.clock_.size(); ++s) {
    fn(self.count_[s], static_cast<int>(s), false);
    clock(self.clock_[s], static_cast<int>(s));
  }
  for (size_t id = 0; id < self.state_.size(); ++id) {
    const NetRegister& r = self.net_->registers[id];
    auto& state = self.state_[id];
    if (r.writer >= 0) {
      fn(state.last_write.count, state.last_write.stream, false);
      slots(state.filled, self.marking_.fills(r), state.last_write.stream);
    }
    for (size_t k = 0; k < r.readers.size(); ++k) {
      fn(state.last_read[k].count, state.last_read[k].stream, false);
      slots(state.returned[k], self.marking_.reads(r.readers[k]) - r.readers[k].initial_fills,
            state.last_read[k].stream);
    }
  }
}

bool HappensBefore::SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const {
  if (owner_ != to.owner_) return false;
  for (size_t id = 0; id < state_.size(); ++id) {
    const NetRegister& r = net_->registers[id];
    const int64_t a = state_[id].first_valid_fill, b = to.state_[id].first_valid_fill;
    const int64_t filled = r.writer < 0 ? 0 : to.marking_.fills(r) - marking_.fills(r);
    if (state_[id].evicted_by != to.state_[id].evicted_by) return false;
    if (a != b && a + filled != b) return false;
    fills->push_back(a == b ? 0 : filled);
  }
  return true;
}

// Why this is sound. In one cycle every count either moved as far as the stream it counts (d) or
// not at all. Say that all that moved goes on moving and all else stays. Accesses do, since the
// same firings make them. Knowledge that stays is at worst too little. Knowledge that moved came
// from somewhere: from a firing of the cycle, or from knowledge that the cycle began with; if that
// had stayed, it could not go on. So the cycle is played again from a state where all knowledge
// that stayed is forgotten: if all that moved comes out again, and no access is refused, it has
// come from knowledge that moves, and the next cycle repeats the argument.
bool HappensBefore::SkipCycles(const HappensBefore& from, const std::vector<int>& firings,
                               const Cycle& cycle) {
  std::vector<int64_t> fills;
  if (!from.SameButCounts(*this, &fills)) return false;
  std::vector<int32_t> before, after;
  std::vector<bool> stays;
  ForCounts(from, [&](int32_t count, int, bool) { before.push_back(count); });
  bool steady = true;
  ForCounts(*this, [&](int32_t count, int stream, bool) {
    const int32_t was = before[after.size()];
    const int32_t moved = count_[stream] - from.count_[stream];
    steady = steady && (count == was || count == was + moved);
    stays.push_back(count == was);
    after.push_back(count);
  });
  if (!steady) return false;

  HappensBefore again = from;
  size_t i = 0;
  ForCounts(again, [&](int32_t& count, int stream, bool knowledge) {
    const bool runs_on = count_[stream] != from.count_[stream];
    if (knowledge && runs_on && stays[i]) count = 0;
    ++i;
  });
  for (int stream : firings) {
    if (!again.Fire(stream).ok()) return false;
  }
  i = 0;
  ForCounts(again, [&](int32_t count, int, bool) {
    steady = steady && (stays[i] || count == after[i]);
    ++i;
  });
  if (!steady) return false;

  std::vector<int32_t> moved(count_.size());
  for (size_t s = 0; s < count_.size(); ++s) moved[s] = count_[s] - from.count_[s];
  Skip(cycle, cycle.times, &marking_);
  i = 0;
  ForCounts(*this, [&](int32_t& count, int stream, bool) {
    const int64_t skipped = stays[i] ? 0 : cycle.times * moved[stream];
    count = after[i++] + static_cast<int32_t>(skipped);
  });
  for (size_t id = 0; id < state_.size(); ++id) {
    state_[id].first_valid_fill += cycle.times * fills[id];
  }
  return true;
}

}  // namespace oneflow
