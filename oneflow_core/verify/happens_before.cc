#include "oneflow_core/verify/happens_before.h"

#include <algorithm>
#include <functional>
#include <limits>
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
  if (a.memory_kind() != b.memory_kind()) return false;
  for (int64_t place = 0; place < PlacesOf(a); ++place) {
    const int64_t begin = a.offset() + place * StrideOf(a);
    if (HasBytesIn(b, begin, begin + a.slot_bytes())) return true;
  }
  return false;
}

}  // namespace

HappensBefore::HappensBefore(const PlanNet& net, int64_t steps)
    : net_(&net),
      clocks_(net, steps),
      holders_(std::make_shared<const Holders>(net)),
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
  // What it held before it lost its bytes is gone.
  if (state.first_valid_fill == kLost) state.first_valid_fill = fill;
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
    if (count > 0 && clocks_.Known(stream, toucher.stream) < count) {
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

int64_t HappensBefore::FillsSince(const HappensBefore& from, int reg) const {
  const NetRegister& r = net_->registers[reg];
  return r.writer < 0 ? 0 : marking().fills(r) - from.marking().fills(r);
}

// Knowledge moves as if all of it went on. What does not turn and was not touched stays.
HappensBefore::Motion HappensBefore::MotionSince(const HappensBefore& from) const {
  const Holders& h = *holders_;
  Motion motion;
  for (int s = 0; s < static_cast<int>(net_->streams.size()); ++s) {
    motion.firings.push_back(clocks_.count(s) - from.clocks_.count(s));
  }
  motion.known = clocks_.Spread(motion.firings);
  motion.over_after.resize(over_after_.size());
  motion.first_valid.resize(held_.size());
  for (int reg = 0; reg < static_cast<int>(net_->registers.size()); ++reg) {
    const Spot& spot = h.spots[reg];
    const int64_t fills = FillsSince(from, reg);
    const bool turns = spot.places > 1 && fills > 0;
    for (int64_t place = 0; place < spot.places; ++place) {
      const int64_t holder = spot.holder + place * spot.holder_step;
      if (turns || held_[holder].first_valid_fill != from.held_[holder].first_valid_fill) {
        motion.first_valid[holder] = fills;
      }
      int64_t access = spot.access + place * spot.access_step;
      for (int i = h.first_toucher[reg]; i < h.first_toucher[reg + 1]; ++i, ++access) {
        if (turns || over_after_[access] != from.over_after_[access]) {
          motion.over_after[access] = motion.firings[h.touchers[i].stream];
        }
      }
    }
  }
  for (const Frames& frames : h.frames) {
    motion.turns.push_back(FillsSince(from, frames.members.front()));
  }
  return motion;
}

void HappensBefore::Skip(const Cycle& cycle, int64_t times, const Motion& motion) {
  clocks_.Skip(cycle, times, motion.firings, motion.known);
  for (size_t i = 0; i < over_after_.size(); ++i) {
    over_after_[i] += static_cast<int32_t>(times * motion.over_after[i]);
  }
  for (size_t i = 0; i < held_.size(); ++i) {
    int64_t& first = held_[i].first_valid_fill;
    if (first != kLost) first += times * motion.first_valid[i];
  }
  for (size_t f = 0; f < tenure_.size(); ++f) {
    const int64_t places = holders_->frames[f].places, turns = times * motion.turns[f];
    const Holders::Block& block = holders_->blocks[f];
    Turn(held_.begin() + block.holder, places, turns, block.holders);
    Turn(over_after_.begin() + block.access, places, turns, block.accesses);
    Turn(owner_.begin() + block.cell, places, turns, block.cells);
  }
}

bool HappensBefore::NoBetterThan(const HappensBefore& other) const {
  const auto all = [](const auto& a, const auto& b, auto good) {
    return std::equal(a.begin(), a.end(), b.begin(), good);
  };
  return owner_ == other.owner_ && tenure_ == other.tenure_ &&
         all(clocks_.known(), other.clocks_.known(), std::less_equal()) &&
         all(over_after_, other.over_after_, std::greater_equal()) &&
         all(held_, other.held_,
             [](const Held& a, const Held& b) { return a.first_valid_fill >= b.first_valid_fill; });
}

// Why this is sound. To move a game on means: every count by the firings of its stream in the
// cycle, every place by its fills. What the game does depends on neither, so moved on it does the
// same; and from a state that is no better (less is known, accesses were later, less is valid) it
// comes to one that is no better.
//
// Let W be this state with all knowledge forgotten that the cycle did not move on: it may have come
// from before, and not come again. Played once more from W, nothing is refused, and W moved on is
// no better than what comes out. So a second cycle, from there, is no worse than one from W moved
// on, which goes as that from W did; and so on: none is refused, and W moved on by all of them is
// no better than what comes out. Two things may be better than that. What is known is not
// forgotten. And what no firing of the cycle touched, in places that do not turn, stays as it is.
//
// Only frames turn, by the fills of their first member. That is asked of no register: where the
// places of one do not turn so (a member that fills otherwise, or what fills its places once), the
// one that it wrote last was not written last a cycle ago, where W has it, and comes out later than
// W moved on says.
bool HappensBefore::SkipCycles(const HappensBefore& from, const std::vector<int>& firings,
                               const Cycle& cycle) {
  Motion motion = MotionSince(from);
  StreamClocks expected = from.clocks_;
  expected.Skip(cycle, 1, motion.firings, motion.known);
  HappensBefore worst = *this;
  for (size_t i = 0; i < motion.known.size(); ++i) {
    if (expected.known()[i] == clocks_.known()[i]) continue;
    worst.clocks_.Forget(i);
    motion.known[i] = 0;
  }
  HappensBefore again = worst;
  for (int stream : firings) {
    if (!again.Fire(stream).ok()) return false;
  }
  worst.Skip(cycle, 1, motion);
  if (!worst.NoBetterThan(again)) return false;
  Skip(cycle, cycle.times, motion);
  return true;
}

}  // namespace oneflow
