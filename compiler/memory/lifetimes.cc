#include "compiler/memory/lifetimes.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/stream_clocks.h"

namespace oneflow {
namespace {

// Fills of the first two steps are looked at: the first finds free slots everywhere, the second
// waits for what came before. The third brings the news of the second.
constexpr int64_t kObserved = 2, kSteps = 3;

int ComputeStream(const PlanNet& net, int stage) {
  for (const NetStream& stream : net.streams) {
    if (stream.proto->stage() == stage && stream.proto->name() == "compute" && stream.firings > 0)
      return stream.proto->id();
  }
  return -1;
}

// Sorted and disjoint.
Spans Merged(Spans parts) {
  std::sort(parts.begin(), parts.end());
  Spans merged;
  for (const auto& [first, last] : parts) {
    if (!merged.empty() && first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, last);
    } else {
      merged.emplace_back(first, last);
    }
  }
  return merged;
}

// Moments of endless time, folded into one step.
Spans Folded(const Spans& spans, int64_t length) {
  Spans parts;
  for (const auto& [first, last] : spans) {
    if (last - first + 1 >= length) return {{0, length - 1}};
    const int64_t a = first % length, b = last % length;
    if (a <= b) {
      parts.emplace_back(a, b);
    } else {
      parts.emplace_back(a, length - 1);
      parts.emplace_back(0, b);
    }
  }
  return Merged(std::move(parts));
}

class Observation {
 public:
  Observation(const PlanNet& net, int stages, const AxisSets& axes, const Interests& interests)
      : net_(net),
        axes_(axes),
        game_(net, axes, interests, kSteps),
        seen_(net.registers.size()),
        unheard_(stages) {
    for (int s = 0; s < stages; ++s) compute_.push_back(ComputeStream(net, s));
    sent_.resize(stages);
    for (size_t id = 0; id < seen_.size(); ++id) Prepare(static_cast<int>(id));
  }

  // Every lifetime of the program.
  std::vector<StageLifetimes> Run() {
    for (ReadyStreams ready(net_); !ready.empty();) {
      const int s = ready.Pop();
      bool fired = false;
      const Marking& marking = game_.marking();
      for (; !marking.done(s) && !marking.BlockerOf(marking.next(s)); fired = true) Fire(s);
      if (fired) ready.Wake(s);
    }
    std::vector<StageLifetimes> result(compute_.size());
    for (size_t s = 0; s < result.size(); ++s) {
      if (compute_[s] >= 0) result[s].length = 3 * net_.streams[compute_[s]].firings;
    }
    for (const NetRegister& r : net_.registers) {
      if (r.persistent || r.proto->slot_bytes() == 0) continue;
      StageLifetimes& stage = result[r.proto->stage()];
      const int id = r.proto->id();
      const Spans fills = FillsOf(id);
      const Spans spans =
          fills.empty() ? Spans{{0, stage.length - 1}} : Folded(fills, stage.length);
      stage.registers.push_back(
          {id, r.slots, r.proto->slot_bytes(), spans, fills, std::move(seen_[id].over)});
    }
    return result;
  }

 private:
  struct Fill {
    int64_t first = 0, last = 0;
    int unheard = 0;  // accesses still to come, or not yet known to be over
  };
  // The last accesses of one of those who touch a register, by fill.
  struct Access {
    AxisSet along = 0;
    int stream = 0;
    std::vector<int32_t> counts;
  };
  struct Seen {
    bool watched = false;
    bool fetched = false;  // once a micro-batch, by another stream than compute
    std::vector<Fill> fills;
    std::vector<Access> accesses;  // of what is sent once a micro-batch: the writer's, the readers'
    std::map<int, std::vector<int64_t>> over;
  };
  // An access that the compute stream has not heard of yet.
  struct Unheard {
    int reg = 0;
    int64_t fill = 0;
    AxisSet along = 0;
    int stream = 0;
    int32_t count = 0;
  };

  bool Watched(int id) const {
    const NetRegister& r = net_.registers[id];
    return !r.persistent && r.proto->slot_bytes() > 0 && r.writer >= 0 &&
           compute_[r.proto->stage()] >= 0 &&
           std::all_of(r.readers.begin(), r.readers.end(),
                       [](const NetReader& reader) { return reader.initial_fills == 0; });
  }

  void Prepare(int id) {
    const NetRegister& r = net_.registers[id];
    Seen& seen = seen_[id];
    seen.watched = Watched(id);
    const int stage = r.proto->stage();
    if (!seen.watched || net_.actors[r.writer].firings / r.proto->fires_per_fill() < 2) return;
    const int writer = net_.actors[r.writer].stream;
    seen.fetched = writer != compute_[stage];
    seen.accesses.push_back({0, writer, {}});
    bool sent = false;
    for (const NetReader& reader : r.readers) {
      seen.accesses.push_back({axes_.SetOf(reader.along), net_.actors[reader.actor].stream, {}});
      sent = sent || !reader.along.empty() || seen.accesses.back().stream != compute_[stage];
    }
    if (sent) {
      sent_[stage].push_back(id);
    } else {
      seen.accesses.clear();
    }
  }

  void Fire(int stream) {
    const int actor = game_.marking().next(stream);
    const proto::Actor& a = net_.actor(actor);
    game_.Begin(stream);
    const int stage = net_.streams[stream].proto->stage();
    if (stream == compute_[stage]) Hear(stage);
    const int64_t n = game_.marking().fired(actor);
    for (int id : a.output()) {
      const int64_t per_fill = net_.registers[id].proto->fires_per_fill();
      if (n % per_fill == 0) Begin(stream, id);
      if ((n + 1) % per_fill == 0) Over(id, n / per_fill, 0, stream, 0);
    }
    for (int i = 0; i < a.input_size(); ++i) {
      const proto::Input& input = a.input(i);
      if ((n + 1) % input.fires_per_read() != 0) continue;
      const NetRegister& r = net_.registers[input.register_()];
      if (!seen_[input.register_()].watched) continue;
      const int k = game_.ReaderIndex(actor, i);
      Over(input.register_(), n / input.fires_per_read(), axes_.SetOf(r.readers[k].along), stream,
           k + 1);
    }
    game_.End(stream);
  }

  // A fill takes its slot. A writer on another stream is later than what it knows of ours.
  void Begin(int stream, int id) {
    if (!seen_[id].watched) return;
    const NetRegister& r = net_.registers[id];
    const int ours = compute_[r.proto->stage()];
    const int64_t known = stream == ours ? 0 : game_.Completed(stream, ours);
    Fill fill;
    fill.first = stream == ours ? 3 * int64_t{game_.count(ours) - 1} + 1
                                : std::max<int64_t>(0, 3 * known - 1);
    fill.last = fill.first;
    fill.unheard = 1 + static_cast<int>(r.readers.size());
    seen_[id].fills.push_back(fill);
    if (seen_[id].fetched) NoteOver(stream, id);
  }

  // What the writer of a fetched fill knows of what is sent.
  void NoteOver(int stream, int id) {
    for (int other : sent_[net_.registers[id].proto->stage()]) {
      const std::vector<Access>& accesses = seen_[other].accesses;
      std::vector<int64_t>& over = seen_[id].over[other];
      int64_t fills = over.empty() ? 0 : over.back();
      const auto known = [&](const Access& access) {
        return fills < std::ssize(access.counts) &&
               game_.Knows(stream, access.along, access.stream, access.counts[fills]);
      };
      while (std::all_of(accesses.begin(), accesses.end(), known)) ++fills;
      over.push_back(fills);
    }
  }

  // The last access of one of those who touch a fill.
  void Over(int id, int64_t fill, AxisSet along, int stream, int access) {
    if (!seen_[id].watched) return;
    if (!seen_[id].accesses.empty()) {
      seen_[id].accesses[access].counts.push_back(game_.count(stream));
    }
    const int stage = net_.registers[id].proto->stage();
    if (stream == compute_[stage]) {
      Extend(id, fill, 3 * int64_t{game_.count(stream) - 1} + 1);
      // Peers do the same on their devices: that has to be heard, too.
      if (along == 0) return Heard(id, fill);
    }
    unheard_[stage].push_back({id, fill, along, stream, game_.count(stream)});
  }

  void Hear(int stage) {
    const int ours = compute_[stage];
    std::vector<Unheard>& list = unheard_[stage];
    const auto known = [&](const Unheard& access) {
      if (!game_.Knows(ours, access.along, access.stream, access.count)) return false;
      Extend(access.reg, access.fill, 3 * int64_t{game_.count(ours) - 1});
      Heard(access.reg, access.fill);
      return true;
    };
    list.erase(std::remove_if(list.begin(), list.end(), known), list.end());
  }

  void Extend(int id, int64_t fill, int64_t moment) {
    Fill& f = seen_[id].fills[fill];
    f.last = std::max(f.last, moment);
  }
  void Heard(int id, int64_t fill) { --seen_[id].fills[fill].unheard; }

  // Of the fills that are looked at; none where one is not known to be over.
  Spans FillsOf(int id) const {
    const NetRegister& r = net_.registers[id];
    if (!seen_[id].watched) return {};
    const int64_t observed = kObserved * net_.actors[r.writer].firings / r.proto->fires_per_fill();
    const std::vector<Fill>& fills = seen_[id].fills;
    if (static_cast<int64_t>(fills.size()) < observed) return {};
    Spans spans;
    for (int64_t j = 0; j < observed; ++j) {
      if (fills[j].unheard > 0) return {};
      spans.emplace_back(fills[j].first, fills[j].last);
    }
    return spans;
  }

  const PlanNet& net_;
  const AxisSets& axes_;
  StreamClocks game_;
  std::vector<int> compute_;                   // stream, by stage; -1: none
  std::vector<Seen> seen_;                     // by register
  std::vector<std::vector<Unheard>> unheard_;  // by stage
  std::vector<std::vector<int>> sent_;         // by stage: registers that others read
};

}  // namespace

absl::StatusOr<std::vector<StageLifetimes>> LifetimesOf(const PlanNet& net, int stages) {
  ASSIGN_OR_RETURN(const AxisSets axes, AxisSets::Of(net));
  const Interests interests(net);
  return Observation(net, stages, axes, interests).Run();
}

const std::vector<int64_t>* Lifetime::OverOf(const Lifetime& other) const {
  const auto found = over.find(other.reg);
  return found == over.end() ? nullptr : &found->second;
}

bool Meet(const Spans& a, const Spans& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].second < b[j].first) {
      ++i;
    } else if (b[j].second < a[i].first) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

int64_t LengthOf(const Spans& spans) {
  int64_t length = 0;
  for (const auto& [first, last] : spans) length += last - first + 1;
  return length;
}

Spans Union(const Spans& a, const Spans& b) {
  Spans parts = a;
  parts.insert(parts.end(), b.begin(), b.end());
  return Merged(std::move(parts));
}

bool MeetInPlace(const Lifetime& a, const Lifetime& b, int64_t places, int64_t further) {
  const auto fills = std::ssize(a.fills);
  const std::vector<int64_t>*a_over = a.OverOf(b), *b_over = b.OverOf(a);
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t i = place, j = (place + places - further) % places; i < fills && j < fills;) {
      if (a.fills[i].second < b.fills[j].first || (b_over != nullptr && i < (*b_over)[j])) {
        i += places;
      } else if (b.fills[j].second < a.fills[i].first || (a_over != nullptr && j < (*a_over)[i])) {
        j += places;
      } else {
        return true;
      }
    }
  }
  return false;
}

}  // namespace oneflow
