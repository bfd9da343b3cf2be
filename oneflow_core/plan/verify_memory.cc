#include "oneflow_core/plan/verify_memory.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int kSteps = 2;
constexpr int kMaxAxes = 8;

// What one device knows to be complete. known(β, t) = n: on every device reached from this one by
// moving along the axes β, the first n firings of stream t are complete. Symmetry makes this the
// same table for every device, so one table a stream stands for the whole mesh.
class Clock {
 public:
  Clock(int axes, int streams)
      : axes_(axes), streams_(streams), known_((size_t{1} << axes) * streams, 0) {}

  int64_t known(uint32_t along, int stream) const { return known_[along * streams_ + stream]; }
  void Complete(int stream, int32_t count) { known_[stream] = count; }

  // Everything that all peers along `along` knew when they had `other`.
  void Merge(const Clock& other, uint32_t along) {
    for (uint32_t beta = 0; beta < (1u << axes_); ++beta) {
      const int32_t* from = &other.known_[beta * streams_];
      int32_t* to = &known_[(beta | along) * streams_];
      for (int t = 0; t < streams_; ++t) to[t] = std::max(to[t], from[t]);
    }
    // What holds on more devices holds on fewer.
    for (int bit = 0; bit < axes_; ++bit) {
      for (uint32_t beta = 0; beta < (1u << axes_); ++beta) {
        if (beta & (1u << bit)) continue;
        const int32_t* from = &known_[(beta | (1u << bit)) * streams_];
        int32_t* to = &known_[beta * streams_];
        for (int t = 0; t < streams_; ++t) to[t] = std::max(to[t], from[t]);
      }
    }
  }

 private:
  int axes_, streams_;
  std::vector<int32_t> known_;  // [axes subset][stream]
};

// An access that must be over before another register may take the bytes.
struct Access {
  int64_t count = 0;  // firings of its stream up to and including it; 0: none yet
  int stream = 0;
  uint32_t along = 0;
  int actor = 0;
};

struct Owned {
  Access last_write;
  std::vector<Access> last_read;  // for each reader
  int64_t first_valid_fill = 0;   // older contents were overwritten by others
  std::string evicted_by;
  // Clocks that edges to other streams and devices carry, by slot.
  std::vector<Clock> filled;
  std::vector<std::vector<Clock>> returned;  // [reader][slot]
};

// Invariants:
//  1. Firings are taken in one legal order. If every pair of conflicting accesses is ordered by
//     happens-before in it, all legal orders agree on them, so one order proves all.
//  2. owner_[stage] maps disjoint byte intervals to the register that wrote them last.
//  3. Registers take and lose their bytes whole (all slots): which slot a step starts with may
//  drift
//     from step to step, whole registers repeat with the step, so two steps are enough.
class HappensBefore {
 public:
  explicit HappensBefore(const PlanNet& net)
      : net_(net),
        cursor_(net.streams.size(), 0),
        fired_(net.actors.size(), 0),
        owner_(net.plan->memory_size()) {}

  absl::Status Run() {
    RETURN_IF_ERROR(NumberAxes());
    Prepare();
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t s = 0; s < net_.streams.size(); ++s) {
        while (cursor_[s] < kSteps * net_.streams[s].firings.size() && MayFire(Next(s))) {
          RETURN_IF_ERROR(Fire(static_cast<int>(s), Next(s)));
          moved = true;
        }
      }
    }
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (cursor_[s] < kSteps * net_.streams[s].firings.size()) {
        return absl::FailedPreconditionError(
            absl::StrCat("program ", net_.program->name(), ": the second step does not finish"));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status NumberAxes() {
    for (const NetRegister& r : net_.registers) {
      for (const NetReader& reader : r.readers) {
        for (int axis : reader.along) bit_.emplace(axis, 0);
      }
    }
    if (bit_.size() > kMaxAxes) {
      return InputError("plan", absl::StrCat("communicates along ", bit_.size(), " mesh axes"),
                        absl::StrCat("use at most ", kMaxAxes));
    }
    int next = 0;
    for (auto& [axis, bit] : bit_) bit = next++;
    return absl::OkStatus();
  }

  uint32_t Mask(const std::vector<int>& along) const {
    uint32_t mask = 0;
    for (int axis : along) mask |= 1u << bit_.at(axis);
    return mask;
  }

  // Whether the edge leaves the stream of the device, so that program order does not carry it.
  bool Crosses(const NetRegister& r, const NetReader& reader) const {
    return !reader.along.empty() ||
           net_.actors[r.writer].stream != net_.actors[reader.actor].stream;
  }

  void Prepare() {
    const Clock zero(static_cast<int>(bit_.size()), static_cast<int>(net_.streams.size()));
    clock_.assign(net_.streams.size(), zero);
    state_.resize(net_.registers.size());
    for (size_t i = 0; i < net_.registers.size(); ++i) {
      const NetRegister& r = net_.registers[i];
      Owned& state = state_[i];
      state.first_valid_fill = std::numeric_limits<int64_t>::min();
      state.returned.resize(r.readers.size());
      for (size_t k = 0; k < r.readers.size(); ++k) {
        state.last_read.push_back({0, net_.actors[r.readers[k].actor].stream,
                                   Mask(r.readers[k].along), r.readers[k].actor});
        if (r.writer < 0 || !Crosses(r, r.readers[k])) continue;
        state.returned[k].assign(r.proto->slots(), zero);
        if (state.filled.empty()) state.filled.assign(r.proto->slots(), zero);
      }
    }
    reader_index_.resize(net_.actors.size());
    for (const NetRegister& r : net_.registers) {
      for (size_t k = 0; k < r.readers.size(); ++k) {
        std::vector<int>& of = reader_index_[r.readers[k].actor];
        of.resize(net_.actor(r.readers[k].actor).input_size());
        of[r.readers[k].input] = static_cast<int>(k);
      }
    }
  }

  int Next(size_t s) const {
    return net_.streams[s].firings[cursor_[s] % net_.streams[s].firings.size()];
  }

  static int64_t SlotOf(int64_t fill, int64_t slots) { return ((fill % slots) + slots) % slots; }

  bool MayFire(int actor) const {
    const int64_t n = fired_[actor];
    for (const proto::Input& input : net_.actor(actor).input()) {
      const NetRegister& r = net_.registers[input.register_()];
      if (r.writer < 0) continue;
      const int64_t fills = fired_[r.writer] / r.proto->fires_per_fill();
      if (input.initial_fills() + fills <= n / input.fires_per_read()) return false;
    }
    for (int id : net_.actor(actor).output()) {
      const NetRegister& r = net_.registers[id];
      if (n % r.proto->fires_per_fill() != 0) continue;
      const int64_t oldest = n / r.proto->fires_per_fill() - r.proto->slots();
      for (const NetReader& reader : r.readers) {
        if (oldest < -reader.initial_fills) continue;
        if (fired_[reader.actor] / reader.fires_per_read < oldest + 1 + reader.initial_fills)
          return false;
      }
    }
    return true;
  }

  absl::Status Fire(int s, int actor) {
    Clock& clock = clock_[s];
    const int64_t n = fired_[actor];
    const proto::Actor& a = net_.actor(actor);
    const int32_t count = static_cast<int32_t>(cursor_[s] + 1);
    for (int i = 0; i < a.input_size(); ++i)
      RETURN_IF_ERROR(Read(clock, a.input(i), actor, i, n, count));
    for (int id : a.output()) TakeCredits(clock, id, n);
    for (int id : a.output()) RETURN_IF_ERROR(Write(clock, s, count, id, actor, n));
    clock.Complete(s, count);
    for (int i = 0; i < a.input_size(); ++i) Return(clock, a.input(i), actor, i, n);
    for (int id : a.output()) Publish(clock, id, n);
    ++cursor_[s];
    ++fired_[actor];
    return absl::OkStatus();
  }

  absl::Status Read(Clock& clock, const proto::Input& input, int actor, int i, int64_t n,
                    int32_t count) {
    const NetRegister& r = net_.registers[input.register_()];
    Owned& state = state_[input.register_()];
    // Known before the firing writes: an actor must not write over what it reads.
    state.last_read[reader_index_[actor][i]].count = count;
    const int64_t fill = n / input.fires_per_read() - input.initial_fills();
    if (fill < state.first_valid_fill) {
      return absl::FailedPreconditionError(
          absl::StrCat("program ", net_.program->name(), ": ", net_.NameOf(actor), " reads ",
                       r.proto->name(), " after ", state.evicted_by, " has overwritten it"));
    }
    if (r.writer < 0 || fill < 0) return absl::OkStatus();
    const NetReader& reader = r.readers[reader_index_[actor][i]];
    if (Crosses(r, reader))
      clock.Merge(state.filled[SlotOf(fill, r.proto->slots())], Mask(reader.along));
    return absl::OkStatus();
  }

  // A fill may start only after the readers have returned the slot's old one: that is knowledge
  // too.
  void TakeCredits(Clock& clock, int id, int64_t n) {
    const NetRegister& r = net_.registers[id];
    if (n % r.proto->fires_per_fill() != 0) return;
    const int64_t old = n / r.proto->fires_per_fill() - r.proto->slots();
    for (size_t k = 0; k < r.readers.size(); ++k) {
      if (old < -r.readers[k].initial_fills || !Crosses(r, r.readers[k])) continue;
      clock.Merge(state_[id].returned[k][SlotOf(old, r.proto->slots())], Mask(r.readers[k].along));
    }
  }

  absl::Status Write(const Clock& clock, int s, int32_t count, int id, int actor, int64_t n) {
    const NetRegister& r = net_.registers[id];
    Owned& state = state_[id];
    const int64_t fill = n / r.proto->fires_per_fill();
    if (fill < state.first_valid_fill && n % r.proto->fires_per_fill() != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "program ", net_.program->name(), ": ", net_.NameOf(actor), " accumulates into ",
          r.proto->name(), " after ", state.evicted_by, " has overwritten it"));
    }
    RETURN_IF_ERROR(TakeBytes(clock, id, actor, fill));
    state.last_write = {count, s, 0, actor};
    return absl::OkStatus();
  }

  struct Interval {
    int64_t end = 0;
    int reg = 0;
  };

  // Makes `id` the owner of its bytes; every register that loses some must be at rest.
  absl::Status TakeBytes(const Clock& clock, int id, int actor, int64_t fill) {
    const proto::Register& r = *net_.registers[id].proto;
    if (r.slot_bytes() == 0) return absl::OkStatus();
    const int64_t begin = r.offset(), end = r.offset() + r.slots() * r.slot_bytes();
    std::map<int64_t, Interval>& owner = owner_[r.stage()];
    auto it = owner.upper_bound(begin);
    if (it != owner.begin() && std::prev(it)->second.end > begin) --it;
    if (it != owner.end() && it->first <= begin && it->second.end >= end && it->second.reg == id) {
      return absl::OkStatus();
    }
    while (it != owner.end() && it->first < end) {
      const int64_t b = it->first;
      const Interval old = it->second;
      if (old.reg != id) RETURN_IF_ERROR(Evict(clock, old.reg, id, actor));
      it = owner.erase(it);
      if (b < begin) owner[b] = {begin, old.reg};
      if (old.end > end) owner[end] = {old.end, old.reg};
    }
    owner[begin] = {end, id};
    // What the register held before it lost its bytes is gone.
    if (!state_[id].evicted_by.empty()) state_[id].first_valid_fill = fill;
    return absl::OkStatus();
  }

  absl::Status Evict(const Clock& clock, int loser, int winner, int actor) {
    Owned& state = state_[loser];
    const auto check = [&](const Access& access, std::string_view verb) -> absl::Status {
      if (access.count == 0 || clock.known(access.along, access.stream) >= access.count)
        return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(
          "program ", net_.program->name(), ": registers ", net_.registers[loser].proto->name(),
          " and ", net_.registers[winner].proto->name(), " of stage ",
          net_.registers[winner].proto->stage(), " share bytes, but ", net_.NameOf(actor),
          " may write while ", net_.NameOf(access.actor), " still ", ToAbsl(verb)));
    };
    RETURN_IF_ERROR(check(state.last_write, "writes"));
    for (const Access& access : state.last_read) RETURN_IF_ERROR(check(access, "reads"));
    state.evicted_by = net_.registers[winner].proto->name();
    state.first_valid_fill = std::numeric_limits<int64_t>::max();
    return absl::OkStatus();
  }

  void Return(const Clock& clock, const proto::Input& input, int actor, int i, int64_t n) {
    const NetRegister& r = net_.registers[input.register_()];
    Owned& state = state_[input.register_()];
    const int k = reader_index_[actor][i];
    if ((n + 1) % input.fires_per_read() != 0 || state.returned[k].empty()) return;
    const int64_t fill = n / input.fires_per_read() - input.initial_fills();
    state.returned[k][SlotOf(fill, r.proto->slots())] = clock;
  }

  void Publish(const Clock& clock, int id, int64_t n) {
    const NetRegister& r = net_.registers[id];
    const int64_t f = r.proto->fires_per_fill();
    if ((n + 1) % f != 0 || state_[id].filled.empty()) return;
    state_[id].filled[SlotOf(n / f, r.proto->slots())] = clock;
  }

  const PlanNet& net_;
  std::map<int, int> bit_;  // mesh axis -> bit of an axes subset
  std::vector<size_t> cursor_;
  std::vector<int64_t> fired_;
  std::vector<Clock> clock_;  // by stream
  std::vector<Owned> state_;  // by register
  std::vector<std::vector<int>>
      reader_index_;  // [actor][input] -> place among the register's readers
  std::vector<std::map<int64_t, Interval>> owner_;  // by stage
};

}  // namespace

absl::Status VerifyMemory(const PlanNet& net) { return HappensBefore(net).Run(); }

}  // namespace oneflow
