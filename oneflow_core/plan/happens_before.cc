#include "oneflow_core/plan/happens_before.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/places.h"

namespace oneflow {
namespace {

constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
constexpr int64_t kLost = std::numeric_limits<int64_t>::max();  // all contents

// Whether any places of the two overlap.
bool ShareBytes(const proto::Register& a, const proto::Register& b) {
  for (int64_t place = 0; place < PlacesOf(a); ++place) {
    const int64_t begin = a.offset() + place * StrideOf(a);
    if (HasBytesIn(b, begin, begin + a.slot_bytes())) return true;
  }
  return false;
}

}  // namespace

HappensBefore::HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                             int64_t steps)
    : net_(&net),
      clocks_(net, axes, interests, steps),
      holders_(std::make_shared<const Holders>(net, axes, interests)),
      held_(holders_->holders, {.first_valid_fill = kAlways}),
      over_after_(holders_->accesses, 0),
      owner_(holders_->cells, -1),
      tenure_(holders_->frames.size(), {false, std::vector<bool>(net.streams.size(), false)}) {}

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
  const Spot& spot = reading.spot;
  const int64_t place = spot.PlaceOf(fill);
  over_after_[spot.access + place * spot.access_step + reading.access] = clocks_.count(stream);
  const Held& state = held(spot, place);
  if (fill >= state.first_valid_fill) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), net_->NameOf(actor), " reads ", net_->registers[reading.reg].proto->name(),
      " after ", net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
}

absl::Status HappensBefore::Write(int stream, int actor, const Writing& writing) {
  const int64_t n = marking().fired(actor), fill = Whole(n, writing.per_fill);
  const Spot& spot = writing.spot;
  const int64_t place = spot.PlaceOf(fill);
  const Held& state = held(spot, place);
  if (fill < state.first_valid_fill && fill * writing.per_fill != n) {
    return absl::FailedPreconditionError(
        absl::StrCat(Program(), net_->NameOf(actor), " accumulates into ",
                     net_->registers[writing.reg].proto->name(), " after ",
                     net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  if (writing.bytes) RETURN_IF_ERROR(TakeBytes(stream, actor, writing, fill, place));
  over_after_[spot.access + place * spot.access_step] = clocks_.count(stream);
  return absl::OkStatus();
}

// Gives a fill its bytes, of which there are some; every register that loses some must be at rest.
absl::Status HappensBefore::TakeBytes(int stream, int actor, const Writing& writing, int64_t fill,
                                      int64_t place) {
  const int id = writing.reg;
  if (writing.intrudes) {
    for (int f : holders_->intrudes[id]) RETURN_IF_ERROR(TakeFrames(stream, actor, id, f, false));
  }
  if (writing.frames >= 0) {
    RETURN_IF_ERROR(TakeFrames(stream, actor, id, writing.frames, true));
  }
  Held& state = held(writing.spot, place);
  if (!state.owns) {
    const auto [first, count] =
        holders_->cells_of[writing.spot.holder + place * writing.spot.holder_step];
    for (int cell = first; cell < first + count; ++cell) {
      const int loser = std::exchange(owner_[cell], id);
      if (loser == id || loser < 0) continue;
      RETURN_IF_ERROR(Evict(stream, actor, loser, holders_->PlaceWith(loser, cell), id));
    }
    state.owns = true;
  }
  // What it held before it lost its bytes is gone; a place holds no older fill anyway.
  if (writing.spot.places > 1 || state.first_valid_fill == kLost) state.first_valid_fill = fill;
  return absl::OkStatus();
}

// Members and intruders of frames have them in turn, all of one side.
absl::Status HappensBefore::TakeFrames(int stream, int actor, int id, int f, bool as_member) {
  Tenure& tenure = tenure_[f];
  if (tenure.members == as_member && tenure.settled[stream]) return absl::OkStatus();
  const Frames& frames = holders_->frames[f];
  for (int other : as_member ? frames.intruders : frames.members) {
    for (int64_t place = 0; place < holders_->spots[other].places; ++place) {
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

// The last accesses of the loser must be over, for all that the writing stream knows.
absl::Status HappensBefore::Evict(int stream, int actor, int loser, int64_t place, int winner) {
  const Holders& h = *holders_;
  const Spot& spot = h.spots[loser];
  const int32_t* over_after = &over_after_[spot.access + place * spot.access_step];
  const int first = h.first_toucher[loser];
  for (int i = first; i < h.first_toucher[loser + 1]; ++i) {
    const Holders::Toucher& toucher = h.touchers[i];
    const int32_t count = over_after[i - first];
    if (count > 0 && clocks_.Known(stream, toucher.along, toucher.index) < count) {
      return NotOver(actor, toucher, i == first, loser, winner);
    }
  }
  held(spot, place) = {kLost, winner, false};
  return absl::OkStatus();
}

absl::Status HappensBefore::NotOver(int actor, const Holders::Toucher& toucher, bool writes,
                                    int loser, int winner) const {
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), "registers ", net_->registers[loser].proto->name(), " and ",
      net_->registers[winner].proto->name(), " of stage ", net_->registers[winner].proto->stage(),
      ShareBytes(*net_->registers[loser].proto, *net_->registers[winner].proto)
          ? " share bytes, but "
          : " lie between each other's places, but ",
      net_->NameOf(actor), " may write while ", net_->NameOf(toucher.actor), " still ",
      writes ? "writes" : "reads"));
}

std::string HappensBefore::Program() const {
  return absl::StrCat("program ", net_->program->name(), ": ");
}

template <typename Fn>
void HappensBefore::ForHolders(Fn fn) const {
  for (int reg = 0; reg < static_cast<int>(net_->registers.size()); ++reg) {
    const Spot& spot = holders_->spots[reg];
    const int64_t n = spot.places;
    const int64_t oldest = n == 1 ? 0 : spot.PlaceOf(marking().fills(net_->registers[reg]));
    for (int64_t i = 0; i < n; ++i) fn(reg, (oldest + i) % n);
  }
}

template <typename Self, typename Fn>
void HappensBefore::ForCounts(Self& self, Fn fn) {
  StreamClocks::ForCounts(self.clocks_, fn);
  const Holders& h = *self.holders_;
  self.ForHolders([&](int reg, int64_t place) {
    auto* count = &self.over_after_[h.spots[reg].access + place * h.spots[reg].access_step];
    for (int i = h.first_toucher[reg]; i < h.first_toucher[reg + 1]; ++i, ++count) {
      const int& stream = h.touchers[i].stream;
      if (stream >= 0) fn(std::span(count, 1), std::span(&stream, 1), false);
    }
  });
}

std::vector<int32_t> HappensBefore::CountsOf(const HappensBefore& game) {
  std::vector<int32_t> all;
  ForCounts(game, [&](std::span<const int32_t> counts, auto, bool) {
    all.insert(all.end(), counts.begin(), counts.end());
  });
  return all;
}

int64_t HappensBefore::FillsBetween(const HappensBefore& to, int reg) const {
  const NetRegister& r = net_->registers[reg];
  return r.writer < 0 ? 0 : to.marking().fills(r) - marking().fills(r);
}

bool HappensBefore::SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const {
  const int arenas = holders_->arena_cells;
  if (!std::equal(owner_.begin(), owner_.begin() + arenas, to.owner_.begin()) ||
      tenure_ != to.tenure_ || !SameFrames(to)) {
    return false;
  }
  std::vector<const Held*> after;
  to.ForHolders(
      [&](int reg, int64_t place) { after.push_back(&to.held(to.holders_->spots[reg], place)); });
  bool same = true;
  ForHolders([&](int reg, int64_t place) {
    const Held &a = held(holders_->spots[reg], place), &b = *after[fills->size()];
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
// What fills its places once a step does not turn: none may have been filled.
bool HappensBefore::SameFrames(const HappensBefore& to) const {
  for (int reg : holders_->once) {
    if (FillsBetween(to, reg) > 0) return false;
  }
  for (size_t f = 0; f < tenure_.size(); ++f) {
    const Frames& frames = holders_->frames[f];
    const Holders::Block& block = holders_->blocks[f];
    const int64_t turns = FillsBetween(to, frames.members.front());
    for (int reg : frames.members) {
      if (FillsBetween(to, reg) != turns) return false;
    }
    const auto cells = [&](const HappensBefore& game, int64_t place) {
      return game.owner_.begin() + block.cell + place % frames.places * block.cells;
    };
    for (int64_t p = 0; p < frames.places; ++p) {
      const auto here = cells(*this, p);
      if (!std::equal(here, here + block.cells, cells(to, p + turns))) return false;
    }
  }
  return true;
}

void HappensBefore::TurnFrames(size_t f, int64_t turns) {
  const int64_t places = holders_->frames[f].places;
  const int64_t last = (places - turns % places) % places;  // comes first
  const Holders::Block& block = holders_->blocks[f];
  const auto turn = [&](auto array, int first, int size) {
    std::rotate(array + first, array + first + last * size, array + first + places * size);
  };
  turn(held_.begin(), block.holder, block.holders);
  turn(over_after_.begin(), block.access, block.accesses);
  turn(owner_.begin(), block.cell, block.cells);
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
  std::vector<int32_t> moved;  // by stream
  for (int s = 0; s < static_cast<int>(net_->streams.size()); ++s) {
    moved.push_back(clocks_.count(s) - from.clocks_.count(s));
  }
  const std::vector<int32_t> before = CountsOf(from), after = CountsOf(*this);
  std::vector<char> stays(after.size());
  bool steady = true;
  size_t i = 0;
  ForCounts(*this, [&](auto, std::span<const int> streams, bool) {
    for (const int stream : streams) {
      stays[i] = after[i] == before[i];
      steady = steady && (stays[i] || after[i] == before[i] + moved[stream]);
      ++i;
    }
  });
  if (!steady) return false;

  HappensBefore again = from;
  i = 0;
  ForCounts(again, [&](std::span<int32_t> counts, std::span<const int> streams, bool knowledge) {
    for (size_t k = 0; k < counts.size(); ++k, ++i) {
      if (knowledge && stays[i] && moved[streams[k]] != 0) counts[k] = 0;
    }
  });
  for (int stream : firings) {
    if (!again.Fire(stream).ok()) return false;
  }
  i = 0;
  ForCounts(std::as_const(again), [&](std::span<const int32_t> counts, auto, bool) {
    for (const int32_t count : counts) {
      steady = steady && (stays[i] || count == after[i]);
      ++i;
    }
  });
  if (!steady) return false;

  std::vector<int64_t> turns;
  for (const Frames& frames : holders_->frames) {
    turns.push_back(cycle.times * from.FillsBetween(*this, frames.members.front()));
  }
  Skip(cycle, cycle.times, &clocks_.marking());
  for (size_t f = 0; f < turns.size(); ++f) TurnFrames(f, turns[f]);
  i = 0;
  ForCounts(*this, [&](std::span<int32_t> counts, std::span<const int> streams, bool) {
    for (size_t k = 0; k < counts.size(); ++k, ++i) {
      const int64_t skipped = stays[i] ? 0 : cycle.times * moved[streams[k]];
      counts[k] = after[i] + static_cast<int32_t>(skipped);
    }
  });
  i = 0;
  ForHolders([&](int reg, int64_t place) {
    held(holders_->spots[reg], place).first_valid_fill += cycle.times * fills[i++];
  });
  return true;
}

}  // namespace oneflow
