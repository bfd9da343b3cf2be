#include "oneflow_core/verify/happens_before.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/buffers.h"

namespace oneflow {
namespace {

constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
constexpr int64_t kLost = std::numeric_limits<int64_t>::max();  // all contents

// True if a buffer of one overlaps a buffer of the other.
bool ShareBytes(const proto::Register& a, const proto::Register& b) {
  if (a.memory_kind() != b.memory_kind()) return false;
  for (int64_t buffer = 0; buffer < BufferCount(a); ++buffer) {
    const int64_t begin = a.offset() + buffer * BufferStride(a);
    if (Overlaps(b, begin, begin + a.slot_bytes())) return true;
  }
  return false;
}

}  // namespace

HappensBefore::HappensBefore(const PlanNet& net, int64_t steps)
    : net_(&net),
      clocks_(net, steps),
      owners_(std::make_shared<const Owners>(net)),
      held_(owners_->owners, {.first_valid_fill = kAlways}),
      over_after_(owners_->accesses, 0),
      cell_owner_(owners_->cells, -1),
      frame_side_(owners_->frames.size(), {false, std::vector<bool>(net.streams.size(), false)}) {}

absl::Status HappensBefore::Fire(int stream) {
  const int actor = marking().next(stream);
  const Owners& h = *owners_;
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
  const int64_t fill = Quotient(n, reading.per_read) - reading.initial_fills;
  const Location& location = reading.location;
  const int64_t buffer = location.BufferIndex(fill);
  over_after_[location.access + buffer * location.access_step + reading.access] =
      clocks_.count(stream);
  const Held& state = held(location, buffer);
  if (fill >= state.first_valid_fill) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), net_->ActorName(actor), " reads ", net_->registers[reading.reg].proto->name(),
      " after ", net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
}

absl::Status HappensBefore::Write(int stream, int actor, const Writing& writing) {
  const int64_t n = marking().fired(actor), fill = Quotient(n, writing.per_fill);
  const Location& location = writing.location;
  const int64_t buffer = location.BufferIndex(fill);
  const Held& state = held(location, buffer);
  if (fill < state.first_valid_fill && fill * writing.per_fill != n) {
    return absl::FailedPreconditionError(
        absl::StrCat(Program(), net_->ActorName(actor), " accumulates into ",
                     net_->registers[writing.reg].proto->name(), " after ",
                     net_->registers[state.evicted_by].proto->name(), " has overwritten it"));
  }
  if (writing.bytes) RETURN_IF_ERROR(TakeBytes(stream, actor, writing, fill, buffer));
  over_after_[location.access + buffer * location.access_step] = clocks_.count(stream);
  return absl::OkStatus();
}

// Makes the fill's register the owner of its bytes. Every register that loses bytes must have no
// access left that this stream does not know to be complete.
absl::Status HappensBefore::TakeBytes(int stream, int actor, const Writing& writing, int64_t fill,
                                      int64_t buffer) {
  const int id = writing.reg;
  if (writing.conflicts) {
    for (int f : owners_->conflicts[id]) RETURN_IF_ERROR(TakeFrames(stream, actor, id, f, false));
  }
  if (writing.frames >= 0) {
    RETURN_IF_ERROR(TakeFrames(stream, actor, id, writing.frames, true));
  }
  Held& state = held(writing.location, buffer);
  if (!state.owns) {
    const auto [first, count] =
        owners_->cells_of[writing.location.owner + buffer * writing.location.owner_step];
    for (int cell = first; cell < first + count; ++cell) {
      const int evicted = std::exchange(cell_owner_[cell], id);
      if (evicted == id || evicted < 0) continue;
      RETURN_IF_ERROR(Evict(stream, actor, evicted, owners_->BufferWith(evicted, cell), id));
    }
    state.owns = true;
  }
  // Its contents from before it lost the bytes are gone.
  if (state.first_valid_fill == kLost) state.first_valid_fill = fill;
  return absl::OkStatus();
}

// Frames belong either to their members or to the conflicting registers, never to some of both:
// which buffer of a member a conflicting register overlaps may differ from step to step, so the
// only sound condition is that all of the other side have finished.
absl::Status HappensBefore::TakeFrames(int stream, int actor, int id, int f, bool as_member) {
  FrameSide& side = frame_side_[f];
  if (side.members == as_member && side.synchronized[stream]) return absl::OkStatus();
  const Frames& frames = owners_->frames[f];
  for (int other : as_member ? frames.conflicting : frames.members) {
    for (int64_t buffer = 0; buffer < owners_->locations[other].buffers; ++buffer) {
      RETURN_IF_ERROR(Evict(stream, actor, other, buffer, id));
    }
  }
  if (side.members != as_member) {
    side.members = as_member;
    std::fill(side.synchronized.begin(), side.synchronized.end(), false);
  }
  side.synchronized[stream] = true;
  return absl::OkStatus();
}

// The writing stream must know that the last accesses of the evicted register are complete: nothing
// else keeps the write from coming before them in some other legal order.
absl::Status HappensBefore::Evict(int stream, int actor, int evicted, int64_t buffer, int evictor) {
  const Owners& h = *owners_;
  const Location& location = h.locations[evicted];
  const int32_t* over_after = &over_after_[location.access + buffer * location.access_step];
  const int first = h.first_accessor[evicted];
  const int end = h.first_accessor[evicted + 1];
  const Owners::Accessor* accessors = h.accessors.data();
  const int32_t* known = clocks_.KnownBy(stream);
  const int* index_of = clocks_.indices();
  for (int i = first; i < end; ++i) {
    const Owners::Accessor& accessor = accessors[i];
    const int32_t count = over_after[i - first];
    if (count > 0 && known[index_of[accessor.stream]] < count) {
      return NotOver(actor, accessor, i == first, evicted, evictor);
    }
  }
  held(location, buffer) = {kLost, evictor, false};
  return absl::OkStatus();
}

absl::Status HappensBefore::NotOver(int actor, const Owners::Accessor& accessor, bool writes,
                                    int evicted, int evictor) const {
  return absl::FailedPreconditionError(absl::StrCat(
      Program(), "registers ", net_->registers[evicted].proto->name(), " and ",
      net_->registers[evictor].proto->name(), " of stage ", net_->registers[evictor].proto->stage(),
      ShareBytes(*net_->registers[evicted].proto, *net_->registers[evictor].proto)
          ? " share bytes, but "
          : " have interleaved buffers, but ",
      net_->ActorName(actor), " may write while ", net_->ActorName(accessor.actor), " still ",
      writes ? "writes" : "reads"));
}

std::string HappensBefore::Program() const {
  return absl::StrCat("program ", net_->program->name(), ": ");
}

int64_t HappensBefore::FillsSince(const HappensBefore& from, int reg) const {
  const NetRegister& r = net_->registers[reg];
  return r.writer < 0 ? 0 : marking().fills(r) - from.marking().fills(r);
}

// Knowledge is assumed to advance with its streams; SkipCycles checks the assumption. State that
// neither rotates nor was changed by the cycle stays.
HappensBefore::Motion HappensBefore::MotionSince(const HappensBefore& from) const {
  const Owners& h = *owners_;
  Motion motion;
  for (int s = 0; s < static_cast<int>(net_->streams.size()); ++s) {
    motion.firings.push_back(clocks_.count(s) - from.clocks_.count(s));
  }
  motion.known = clocks_.Spread(motion.firings);
  motion.over_after.resize(over_after_.size());
  motion.first_valid.resize(held_.size());
  for (int reg = 0; reg < static_cast<int>(net_->registers.size()); ++reg) {
    const Location& location = h.locations[reg];
    const int64_t fills = FillsSince(from, reg);
    const bool turns = location.buffers > 1 && fills > 0;
    for (int64_t buffer = 0; buffer < location.buffers; ++buffer) {
      const int64_t owner = location.owner + buffer * location.owner_step;
      if (turns || held_[owner].first_valid_fill != from.held_[owner].first_valid_fill) {
        motion.first_valid[owner] = fills;
      }
      int64_t access = location.access + buffer * location.access_step;
      for (int i = h.first_accessor[reg]; i < h.first_accessor[reg + 1]; ++i, ++access) {
        if (turns || over_after_[access] != from.over_after_[access]) {
          motion.over_after[access] = motion.firings[h.accessors[i].stream];
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
  for (size_t f = 0; f < frame_side_.size(); ++f) {
    const int64_t buffers = owners_->frames[f].buffers, turns = times * motion.turns[f];
    const Owners::Block& block = owners_->blocks[f];
    Rotate(held_.begin() + block.owner, buffers, turns, block.owners);
    Rotate(over_after_.begin() + block.access, buffers, turns, block.accesses);
    Rotate(cell_owner_.begin() + block.cell, buffers, turns, block.cells);
  }
}

bool HappensBefore::NoBetterThan(const HappensBefore& other) const {
  const auto all = [](const auto& a, const auto& b, auto good) {
    return std::equal(a.begin(), a.end(), b.begin(), good);
  };
  return cell_owner_ == other.cell_owner_ && frame_side_ == other.frame_side_ &&
         all(clocks_.known(), other.clocks_.known(), std::less_equal()) &&
         all(over_after_, other.over_after_, std::greater_equal()) &&
         all(held_, other.held_,
             [](const Held& a, const Held& b) { return a.first_valid_fill >= b.first_valid_fill; });
}

// Soundness. To shift a game by a cycle means to add, to every count, the firings of its stream in
// the cycle, and to rotate buffers by their fills. The rules depend on neither, so a shifted game
// accepts the same firings. The rules are also monotone: from a state that is no better (less is
// known, accesses were later, less is valid) the game comes to a state that is no better.
//
// Let W be this state without the knowledge that the cycle did not advance: such knowledge may stem
// from before the cycle, and the next cycle need not bring it again. One cycle is played from W:
// nothing is refused, and W shifted is no better than the result. So a second cycle, from that
// result, does no worse than one from W shifted, which goes as the one from W did. By induction no
// cycle is refused, and W shifted by all of them is no better than the result. The state that is
// set here is better than that in two ways, both sound: knowledge is kept, and state that no firing
// of the cycle changed, in buffers that do not rotate, stays as it is.
//
// Only frames rotate, by the fills of their first member. No register is checked for it. If the
// buffers of a register do not rotate so (a member that fills otherwise, or a register that fills
// its buffers once), the played cycle from W ends with a later last write than W shifted, and the
// comparison fails.
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
  HappensBefore replay = worst;
  for (int stream : firings) {
    if (!replay.Fire(stream).ok()) return false;
  }
  worst.Skip(cycle, 1, motion);
  if (!worst.NoBetterThan(replay)) return false;
  Skip(cycle, cycle.times, motion);
  return true;
}

}  // namespace oneflow
