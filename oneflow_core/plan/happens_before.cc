#include "oneflow_core/plan/happens_before.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
HappensBefore::HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                             int64_t steps)
    : net_(&net),
      axes_(&axes),
      clocks_(net, axes, interests, steps),
      state_(net.registers.size()),
      owner_(net.plan->memory_size()) {
  for (size_t i = 0; i < net.registers.size(); ++i) Prepare(net.registers[i], &state_[i]);
}

void HappensBefore::Prepare(const NetRegister& r, Owned* state) {
  state->first_valid_fill = std::numeric_limits<int64_t>::min();
  if (r.writer >= 0) state->last_write = {0, net_->actors[r.writer].stream, 0, r.writer};
  for (const NetReader& reader : r.readers) {
    const int stream = net_->actors[reader.actor].stream;
    state->last_read.push_back({0, stream, axes_->SetOf(reader.along), reader.actor});
  }
}

absl::Status HappensBefore::Fire(int stream) {
  const int actor = marking().next(stream);
  const proto::Actor& a = net_->actor(actor);
  clocks_.Begin(stream);
  for (int i = 0; i < a.input_size(); ++i) RETURN_IF_ERROR(Read(stream, actor, i));
  for (int id : a.output()) RETURN_IF_ERROR(Write(stream, actor, id));
  clocks_.End(stream);
  return absl::OkStatus();
}

absl::Status HappensBefore::Read(int stream, int actor, int i) {
  const proto::Input& input = net_->actor(actor).input(i);
  Owned& state = state_[input.register_()];
  state.last_read[clocks_.ReaderIndex(actor, i)].count = clocks_.count(stream);
  const int64_t fill = marking().fired(actor) / input.fires_per_read() - input.initial_fills();
  if (fill >= state.first_valid_fill) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), net_->NameOf(actor), " reads ", net_->registers[input.register_()].proto->name(),
      " after ", net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
}

absl::Status HappensBefore::Write(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  Owned& state = state_[id];
  const int64_t n = marking().fired(actor), per_fill = r.proto->fires_per_fill();
  if (n / per_fill < state.first_valid_fill && n % per_fill != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        Program(), net_->NameOf(actor), " accumulates into ", r.proto->name(), " after ",
        net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  RETURN_IF_ERROR(TakeBytes(stream, actor, id, n / per_fill));
  state.last_write.count = clocks_.count(stream);
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
  if (clocks_.Knows(stream, access.along, access.stream, access.count)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), "registers ", net_->registers[loser].proto->name(), " and ",
      net_->registers[winner].proto->name(), " of stage ", net_->registers[winner].proto->stage(),
      " share bytes, but ", net_->NameOf(actor), " may write while ", net_->NameOf(access.actor),
      " still ", ToAbsl(verb)));
}

std::string HappensBefore::Program() const {
  return absl::StrCat("program ", net_->program->name(), ": ");
}

template <typename Self, typename Fn>
void HappensBefore::ForCounts(Self& self, Fn fn) {
  StreamClocks::ForCounts(self.clocks_, fn);
  for (size_t id = 0; id < self.state_.size(); ++id) {
    auto& state = self.state_[id];
    if (self.net_->registers[id].writer >= 0) {
      fn(state.last_write.count, state.last_write.stream, false);
    }
    for (auto& access : state.last_read) fn(access.count, access.stream, false);
  }
}

bool HappensBefore::SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const {
  if (owner_ != to.owner_) return false;
  for (size_t id = 0; id < state_.size(); ++id) {
    const NetRegister& r = net_->registers[id];
    const int64_t a = state_[id].first_valid_fill, b = to.state_[id].first_valid_fill;
    const int64_t filled = r.writer < 0 ? 0 : to.marking().fills(r) - marking().fills(r);
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
    const int32_t moved = clocks_.count(stream) - from.clocks_.count(stream);
    steady = steady && (count == was || count == was + moved);
    stays.push_back(count == was);
    after.push_back(count);
  });
  if (!steady) return false;

  HappensBefore again = from;
  size_t i = 0;
  ForCounts(again, [&](int32_t& count, int stream, bool knowledge) {
    const bool runs_on = clocks_.count(stream) != from.clocks_.count(stream);
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

  std::vector<int32_t> moved;
  for (int s = 0; s < static_cast<int>(net_->streams.size()); ++s) {
    moved.push_back(clocks_.count(s) - from.clocks_.count(s));
  }
  Skip(cycle, cycle.times, &clocks_.marking());
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
