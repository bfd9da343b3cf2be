#include "oneflow_core/plan/happens_before.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/places.h"

namespace oneflow {
namespace {

constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
constexpr int64_t kLost = std::numeric_limits<int64_t>::max();  // all contents

}  // namespace

HappensBefore::Holders::Holders(const PlanNet& net)
    : frames(FramesOf(net)), member_of(net.registers.size(), -1), intrudes(net.registers.size()) {
  for (size_t f = 0; f < frames.size(); ++f) {
    for (int reg : frames[f].members) member_of[reg] = static_cast<int>(f);
    for (int reg : frames[f].intruders) intrudes[reg].push_back(static_cast<int>(f));
  }
  int64_t holders = 0;
  for (size_t reg = 0; reg < net.registers.size(); ++reg) {
    first.push_back(static_cast<int>(holders));
    holders += member_of[reg] < 0 ? 1 : frames[member_of[reg]].places;
  }
  first.push_back(static_cast<int>(holders));
  const std::vector<std::vector<int>> reader_of = ReaderIndices(net);
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    first_reading.push_back(static_cast<int>(readings.size()));
    first_writing.push_back(static_cast<int>(writings.size()));
    for (int i = 0; i < net.actor(a).input_size(); ++i) {
      const proto::Input& input = net.actor(a).input(i);
      readings.push_back(
          {input.register_(), reader_of[a][i], input.fires_per_read(), input.initial_fills()});
    }
    for (int reg : net.actor(a).output()) {
      const proto::Register& r = *net.registers[reg].proto;
      writings.push_back({reg, r.fires_per_fill(), r.slot_bytes() > 0});
    }
  }
  first_reading.push_back(static_cast<int>(readings.size()));
  first_writing.push_back(static_cast<int>(writings.size()));
}

HappensBefore::HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                             int64_t steps)
    : net_(&net),
      axes_(&axes),
      clocks_(net, axes, interests, steps),
      holders_(std::make_shared<const Holders>(net)),
      state_(holders_->first.back()),
      owner_(net.plan->memory_size()) {
  ForHolders([&](int holder, int reg) { Prepare(net.registers[reg], &state_[holder]); });
  for (const Frames& frames : holders_->frames) {
    in_frame_.emplace_back(frames.places);
    tenure_.push_back({false, std::vector<bool>(net.streams.size(), false)});
  }
}

template <typename Fn>
void HappensBefore::ForHolders(Fn fn) const {
  for (int reg = 0; reg < static_cast<int>(net_->registers.size()); ++reg) {
    const int first = holders_->first[reg], n = holders_->count(reg);
    const int64_t oldest = n == 1 ? 0 : PlaceOf(reg, marking().fills(net_->registers[reg]));
    for (int64_t i = 0; i < n; ++i) fn(first + static_cast<int>((oldest + i) % n), reg);
  }
}

// Among the holders of a register.
int64_t HappensBefore::PlaceOf(int reg, int64_t fill) const {
  return holders_->count(reg) == 1 ? 0 : oneflow::PlaceOf(*net_->registers[reg].proto, fill);
}

void HappensBefore::Prepare(const NetRegister& r, Owned* state) {
  state->first_valid_fill = kAlways;
  if (r.writer >= 0) state->last_write = {0, net_->actors[r.writer].stream, 0, r.writer};
  for (const NetReader& reader : r.readers) {
    const int stream = net_->actors[reader.actor].stream;
    state->last_read.push_back({0, stream, axes_->SetOf(reader.along), reader.actor});
  }
}

absl::Status HappensBefore::Fire(int stream) {
  const int actor = marking().next(stream);
  const Holders& h = *holders_;
  clocks_.Begin(stream);
  for (int i = h.first_reading[actor]; i < h.first_reading[actor + 1]; ++i) {
    RETURN_IF_ERROR(Read(stream, actor, h.readings[i]));
  }
  for (int i = h.first_writing[actor]; i < h.first_writing[actor + 1]; ++i) {
    RETURN_IF_ERROR(Write(stream, actor, h.writings[i]));
  }
  clocks_.End(stream);
  return absl::OkStatus();
}

absl::Status HappensBefore::Read(int stream, int actor, const Reading& reading) {
  const int64_t n = marking().fired(actor);
  const int64_t fill = Whole(n, reading.per_read) - reading.initial_fills;
  Owned& state = state_[holders_->first[reading.reg] + PlaceOf(reading.reg, fill)];
  state.last_read[reading.reader].count = clocks_.count(stream);
  if (fill >= state.first_valid_fill) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), net_->NameOf(actor), " reads ", net_->registers[reading.reg].proto->name(),
      " after ", net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
}

absl::Status HappensBefore::Write(int stream, int actor, const Writing& writing) {
  const int64_t n = marking().fired(actor), fill = Whole(n, writing.per_fill);
  Owned& state = state_[holders_->first[writing.reg] + PlaceOf(writing.reg, fill)];
  if (fill < state.first_valid_fill && fill * writing.per_fill != n) {
    return absl::FailedPreconditionError(
        absl::StrCat(Program(), net_->NameOf(actor), " accumulates into ",
                     net_->registers[writing.reg].proto->name(), " after ",
                     net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  if (writing.has_bytes) RETURN_IF_ERROR(TakeBytes(stream, actor, writing.reg, fill));
  state.last_write.count = clocks_.count(stream);
  return absl::OkStatus();
}

// Gives a fill its bytes, of which there are some; every register that loses some must be at rest.
absl::Status HappensBefore::TakeBytes(int stream, int actor, int id, int64_t fill) {
  const int frames = holders_->member_of[id];
  for (int f : holders_->intrudes[id]) RETURN_IF_ERROR(TakeFrames(stream, actor, id, f, false));
  if (frames >= 0) RETURN_IF_ERROR(TakeFrames(stream, actor, id, frames, true));
  const int64_t place = PlaceOf(id, fill);
  Owned& state = state_[holders_->first[id] + place];
  if (!state.owns) {
    const proto::Register& r = *net_->registers[id].proto;
    const bool apart = frames >= 0;
    const int64_t begin = apart ? r.offset() - holders_->frames[frames].begin : r.offset();
    RETURN_IF_ERROR(TakeInterval(stream, actor, id, place, begin,
                                 apart ? begin + r.slot_bytes() : EndOf(r),
                                 apart ? &in_frame_[frames][place] : &owner_[r.stage()]));
    state.owns = true;
  }
  // What it held before it lost its bytes is gone; a place holds no older fill anyway.
  if (frames >= 0 || state.first_valid_fill == kLost) state.first_valid_fill = fill;
  return absl::OkStatus();
}

// Members and intruders of frames have them in turn, all of one side.
absl::Status HappensBefore::TakeFrames(int stream, int actor, int id, int f, bool as_member) {
  Tenure& tenure = tenure_[f];
  if (tenure.members == as_member && tenure.settled[stream]) return absl::OkStatus();
  const Frames& frames = holders_->frames[f];
  for (int other : as_member ? frames.intruders : frames.members) {
    for (int64_t place = 0; place < holders_->count(other); ++place) {
      RETURN_IF_ERROR(Evict(stream, actor, other, place, id));
    }
  }
  if (tenure.members != as_member) {
    tenure.members = as_member;
    std::fill(tenure.settled.begin(), tenure.settled.end(), false);
  }
  tenure.settled[stream] = true;
  return absl::OkStatus();
}

absl::Status HappensBefore::TakeInterval(int stream, int actor, int id, int64_t place,
                                         int64_t begin, int64_t end, Owners* owners) {
  Owners& owner = *owners;
  auto it = owner.upper_bound(begin);
  if (it != owner.begin() && std::prev(it)->second.end > begin) --it;
  if (it != owner.end() && it->first <= begin && it->second.end >= end && it->second.reg == id) {
    return absl::OkStatus();
  }
  while (it != owner.end() && it->first < end) {
    const int64_t b = it->first;
    const Interval old = it->second;
    if (old.reg != id) RETURN_IF_ERROR(Evict(stream, actor, old.reg, place, id));
    it = owner.erase(it);
    if (b < begin) owner[b] = {begin, old.reg};
    if (old.end > end) owner[end] = {old.end, old.reg};
  }
  owner[begin] = {end, id};
  return absl::OkStatus();
}

absl::Status HappensBefore::Evict(int stream, int actor, int loser, int64_t place, int winner) {
  Owned& state = state_[holders_->first[loser] + place];
  RETURN_IF_ERROR(CheckOver(stream, actor, state.last_write, "writes", loser, winner));
  for (const Access& access : state.last_read) {
    RETURN_IF_ERROR(CheckOver(stream, actor, access, "reads", loser, winner));
  }
  state.evicted_by = winner;
  state.first_valid_fill = kLost;
  state.owns = false;
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
  self.ForHolders([&](int holder, int reg) {
    auto& state = self.state_[holder];
    if (self.net_->registers[reg].writer >= 0) {
      fn(state.last_write.count, state.last_write.stream, false);
    }
    for (auto& access : state.last_read) fn(access.count, access.stream, false);
  });
}

int64_t HappensBefore::FillsBetween(const HappensBefore& to, int reg) const {
  const NetRegister& r = net_->registers[reg];
  return r.writer < 0 ? 0 : to.marking().fills(r) - marking().fills(r);
}

bool HappensBefore::SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const {
  if (owner_ != to.owner_ || tenure_ != to.tenure_ || !SameFrames(to)) return false;
  std::vector<const Owned*> after;
  to.ForHolders([&](int holder, int) { after.push_back(&to.state_[holder]); });
  bool same = true;
  ForHolders([&](int holder, int reg) {
    const Owned &a = state_[holder], &b = *after[fills->size()];
    const bool stays = a.first_valid_fill == b.first_valid_fill;
    const int64_t filled = stays ? 0 : FillsBetween(to, reg);
    same = same && a.evicted_by == b.evicted_by && a.owns == b.owns &&
           (stays ||
            (a.first_valid_fill != kLost && a.first_valid_fill + filled == b.first_valid_fill));
    fills->push_back(filled);
  });
  return same;
}

// Whether all members of frames have filled alike, and so many frames further all lies as it did.
bool HappensBefore::SameFrames(const HappensBefore& to) const {
  for (size_t f = 0; f < in_frame_.size(); ++f) {
    const Frames& frames = holders_->frames[f];
    const int64_t turns = FillsBetween(to, frames.members.front());
    for (int reg : frames.members) {
      if (FillsBetween(to, reg) != turns) return false;
    }
    for (int64_t p = 0; p < frames.places; ++p) {
      if (in_frame_[f][p] != to.in_frame_[f][(p + turns) % frames.places]) return false;
    }
  }
  return true;
}

void HappensBefore::TurnFrames(size_t f, int64_t turns) {
  const Frames& frames = holders_->frames[f];
  const int64_t last = (frames.places - turns % frames.places) % frames.places;  // comes first
  const auto turn = [&](auto begin) { std::rotate(begin, begin + last, begin + frames.places); };
  turn(in_frame_[f].begin());
  for (int reg : frames.members) turn(state_.begin() + holders_->first[reg]);
}

// Why this is sound. In one cycle every count either moved as far as the stream it counts (d) or
// not at all. Say that all that moved goes on moving and all else stays. Accesses do, since the
// same firings make them. Knowledge that stays is at worst too little. Knowledge that moved came
// from somewhere: from a firing of the cycle, or from knowledge that the cycle began with; if that
// had stayed, it could not go on. So the cycle is played again from a state where all knowledge
// that stayed is forgotten: if all that moved comes out again, and no access is refused, it has
// come from knowledge that moves, and the next cycle repeats the argument. Frames have turned by
// the fills of the cycle; members meet in a frame only, so the next cycle is the same so many
// further.
bool HappensBefore::SkipCycles(const HappensBefore& from, const std::vector<int>& firings,
                               const Cycle& cycle) {
  std::vector<int64_t> fills;
  if (!from.SameButCounts(*this, &fills)) return false;
  std::vector<int32_t> before, after;
  std::vector<bool> stays;
  ForCounts(from, [&](int32_t count, int, bool) { before.push_back(count); });
  after.reserve(before.size());
  stays.reserve(before.size());
  bool steady = true;
  ForCounts(*this, [&](int32_t count, int stream, bool) {
    if (!steady) return;
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
  std::vector<int64_t> turns;
  for (const Frames& frames : holders_->frames) {
    turns.push_back(cycle.times * from.FillsBetween(*this, frames.members.front()));
  }
  Skip(cycle, cycle.times, &clocks_.marking());
  for (size_t f = 0; f < turns.size(); ++f) TurnFrames(f, turns[f]);
  i = 0;
  ForCounts(*this, [&](int32_t& count, int stream, bool) {
    const int64_t skipped = stays[i] ? 0 : cycle.times * moved[stream];
    count = after[i++] + static_cast<int32_t>(skipped);
  });
  i = 0;
  ForHolders([&](int holder, int) { state_[holder].first_valid_fill += cycle.times * fills[i++]; });
  return true;
}

}  // namespace oneflow
