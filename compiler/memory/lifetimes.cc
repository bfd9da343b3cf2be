#include "compiler/memory/lifetimes.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "oneflow_core/base/status.h"
#include "oneflow_core/net/stream_clocks.h"
#include "oneflow_core/plan/arenas.h"

namespace oneflow {
namespace {

// Fills of the first two steps are observed: those of the first step find free slots everywhere,
// those of the second wait for the fills before them. Step 3 is simulated only so that completions
// of step 2 become visible to the compute stream.
constexpr int64_t kObserved = 2, kSteps = 3;
// Registers that fill once a step and are smaller than this are not tracked on streams other than
// compute: there may be thousands of them, and each costs a look-up per firing.
constexpr int64_t kLarge = 1 << 16;

int ComputeStream(const PlanNet& net, int stage) {
  for (const NetStream& stream : net.streams) {
    const bool computes = stream.proto->kind() == proto::Stream::COMPUTE && stream.firings > 0;
    if (stream.proto->stage() == stage && computes) return stream.proto->id();
  }
  return -1;
}

// Sorted and disjoint.
Spans MergeSpans(Spans parts) {
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

// Maps moments of unbounded time to moments of one step.
Spans FoldIntoStep(const Spans& spans, int64_t length) {
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
  return MergeSpans(std::move(parts));
}

class Observation {
 public:
  Observation(const PlanNet& net, int stages)
      : net_(net), game_(net, kSteps), seen_(net.registers.size()), clock_updates_(stages) {
    for (int s = 0; s < stages; ++s) compute_.push_back(ComputeStream(net, s));
    sent_.resize(stages);
    for (size_t id = 0; id < seen_.size(); ++id) Prepare(static_cast<int>(id));
  }

  // Every lifetime of the program.
  std::vector<StageLifetimes> Run() {
    for (ReadyStreams ready(net_); pending_ > 0 && !ready.empty();) {
      const int s = ready.Pop();
      bool fired = false;
      const Marking& marking = game_.marking();
      for (; !marking.done(s) && !marking.FindBlocker(marking.next(s)); fired = true) Fire(s);
      if (fired) ready.Wake(s);
    }
    const int stages = static_cast<int>(compute_.size());
    std::vector<StageLifetimes> result(std::max(stages, net_.plan->memory_size()));
    for (size_t arena = 0; arena < result.size(); ++arena) {
      const int compute = compute_[arena % stages];
      if (compute >= 0) result[arena].length = 3 * net_.streams[compute].firings;
    }
    for (const NetRegister& r : net_.registers) {
      if (r.persistent || r.proto->slot_bytes() == 0) continue;
      StageLifetimes& stage = result[ArenaIndex(*r.proto, stages)];
      const int id = r.proto->id();
      const Spans fills = ObservedFills(id);
      const Spans spans =
          fills.empty() ? Spans{{0, stage.length - 1}} : FoldIntoStep(fills, stage.length);
      stage.registers.push_back({id, r.slots, r.proto->slot_bytes(), r.workspace, spans, fills,
                                 seen_[id].sent, std::move(seen_[id].over)});
    }
    return result;
  }

 private:
  struct Fill {
    int64_t first = 0, last = 0;
    int open = 0;  // accesses still to come, or not yet known to be complete
  };
  // The writer of a register, or one of its readers.
  struct Accessor {
    int stream = 0;
    int update = -1;              // of its accesses, among those of the stage; -1: it is compute
    std::vector<int32_t> counts;  // by fill: its last access, if the register is sent
  };
  struct Seen {
    bool watched = false;
    int sent = -1;         // read on another stream than compute: its completions are recorded
    bool fetched = false;  // written on another stream than compute: it looks them up
    int stage = 0;
    int64_t observed = 0;  // so many fills are observed
    std::vector<Fill> fills;
    std::vector<Accessor> accessors;  // the writer, the readers
    std::vector<int32_t> over;        // as in Lifetime
  };
  // Accesses on another stream that the compute stream's clock does not include yet, in order.
  struct ClockUpdate {
    struct Access {
      int reg = 0;
      int64_t fill = 0;
      int32_t count = 0;
    };
    int stream = 0;
    std::deque<Access> open;
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
    if (!seen.watched) return;
    seen.stage = r.proto->stage();
    seen.observed = kObserved * net_.actors[r.writer].firings / r.fires_per_fill;
    pending_ += seen.observed;
    const int64_t all_fills = seen.observed / kObserved * kSteps;
    seen.fills.reserve(all_fills);
    // A send to another stage, once a micro-batch, is complete long before the clock of compute
    // includes it; so is the exchange of a large gradient once a step. Both are recorded. An
    // exchange within the stage, once a micro-batch, reaches compute at once and need not be.
    const bool often = seen.observed >= 2 * kObserved, large = r.proto->slot_bytes() >= kLarge;
    const auto add = [&](int actor) {
      const auto& [stream, partner] =
          std::pair(net_.actors[actor].stream, net_.actors[actor].partner);
      const bool elsewhere = stream != compute_[seen.stage];
      seen.accessors.push_back({stream, elsewhere ? UpdateIndex(seen.stage, stream) : -1, {}});
      // Compute learns of copies to and from the host, which may be many, by their credits.
      const proto::Stream::Kind kind = net_.streams[stream].proto->kind();
      const bool known = kind == proto::Stream::COPY || kind == proto::Stream::HOST_COMPUTE;
      return elsewhere && !known && (partner >= 0 ? often : !often && large);
    };
    const bool fetched = add(r.writer);
    // The scratch of a collective is free when it completes, which the next one of its stream
    // knows.
    bool sent = fetched && r.workspace && !often;
    for (const NetReader& reader : r.readers) sent = add(reader.actor) || sent;
    seen.fetched = fetched;
    if (!sent) return;
    for (Accessor& accessor : seen.accessors) accessor.counts.reserve(all_fills);
    seen.sent = static_cast<int>(sent_[seen.stage].size());
    sent_[seen.stage].push_back(id);
  }

  // Index of the stream's pending updates among those of the stage.
  int UpdateIndex(int stage, int stream) {
    std::vector<ClockUpdate>& all = clock_updates_[stage];
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const ClockUpdate& update) { return update.stream == stream; });
    const int index = static_cast<int>(found - all.begin());
    if (found == all.end()) all.push_back({stream, {}});
    return index;
  }

  void Fire(int stream) {
    const int actor = game_.marking().next(stream), stage = net_.actors[actor].stage;
    game_.Begin(stream);
    if (stream == compute_[stage] && game_.ReceivesUpdates(actor)) ApplyUpdates(stage);
    const int64_t n = game_.marking().fired(actor);
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill, fill = Quotient(n, per_fill);
      if (fill * per_fill == n) Begin(stream, id);
      if (Completes(n, per_fill)) Over(id, fill, stream, 0);
    }
    for (const NetInput& input : net_.inputs_of(actor)) {
      if (!Completes(n, input.fires_per_read)) continue;
      Over(input.reg, Quotient(n, input.fires_per_read), stream, 1 + input.reader);
    }
    game_.End(stream);
  }

  // A fill takes its slot. A writer on another stream comes after all that its clock includes.
  void Begin(int stream, int id) {
    Seen& seen = seen_[id];
    if (!seen.watched) return;
    const int64_t first = stream == compute_[seen.stage]
                              ? 3 * int64_t{game_.count(stream) - 1} + 1
                              : std::max<int64_t>(0, 3 * KnownOfCompute(stream, seen.stage) - 1);
    seen.fills.push_back({first, first, static_cast<int>(seen.accessors.size())});
    if (seen.fetched) NoteOver(stream, id);
  }

  int64_t KnownOfCompute(int stream, int stage) const {
    return game_.Known(stream, compute_[stage]);
  }

  // Records, for each sent register, how many of its fills the writer of a fetched fill knows to be
  // complete.
  void NoteOver(int stream, int id) {
    const std::vector<int>& sent = sent_[seen_[id].stage];
    const int64_t observed = seen_[id].observed, fill = std::ssize(seen_[id].fills) - 1;
    if (fill >= observed) return;
    seen_[id].over.resize(std::ssize(sent) * observed);
    int32_t* over = seen_[id].over.data() + fill;
    for (const int other : sent) {
      const std::vector<Accessor>& accessors = seen_[other].accessors;
      int32_t fills = fill == 0 ? 0 : over[-1];
      const auto known = [&](const Accessor& by) {
        return fills < std::ssize(by.counts) && game_.Known(stream, by.stream) >= by.counts[fills];
      };
      while (std::all_of(accessors.begin(), accessors.end(), known)) ++fills;
      *over = fills;
      over += observed;
    }
  }

  // The last access of a fill by one of its accessors.
  void Over(int id, int64_t fill, int stream, int accessor) {
    Seen& seen = seen_[id];
    if (!seen.watched) return;
    Accessor& by = seen.accessors[accessor];
    if (seen.sent >= 0) by.counts.push_back(game_.count(stream));
    if (stream == compute_[seen.stage]) Extend(id, fill, 3 * int64_t{game_.count(stream) - 1} + 1);
    if (by.update < 0) return Close(id, fill);
    clock_updates_[seen.stage][by.update].open.push_back({id, fill, game_.count(stream)});
  }

  void ApplyUpdates(int stage) {
    const int ours = compute_[stage];
    for (ClockUpdate& update : clock_updates_[stage]) {
      const int32_t known = game_.Known(ours, update.stream);
      for (; !update.open.empty() && update.open.front().count <= known; update.open.pop_front()) {
        const auto& [id, fill, count] = update.open.front();
        Extend(id, fill, 3 * int64_t{game_.count(ours) - 1});
        Close(id, fill);
      }
    }
  }

  void Extend(int id, int64_t fill, int64_t moment) {
    Fill& f = seen_[id].fills[fill];
    f.last = std::max(f.last, moment);
  }
  void Close(int id, int64_t fill) {
    if (--seen_[id].fills[fill].open == 0 && fill < seen_[id].observed) --pending_;
  }

  // The spans of the observed fills; empty if one of them is not known to be complete.
  Spans ObservedFills(int id) const {
    if (!seen_[id].watched) return {};
    const int64_t observed = seen_[id].observed;
    const std::vector<Fill>& fills = seen_[id].fills;
    if (static_cast<int64_t>(fills.size()) < observed) return {};
    Spans spans;
    for (int64_t j = 0; j < observed; ++j) {
      if (fills[j].open > 0) return {};
      spans.emplace_back(fills[j].first, fills[j].last);
    }
    return spans;
  }

  const PlanNet& net_;
  StreamClocks game_;
  std::vector<int> compute_;                             // stream, by stage; -1: none
  std::vector<Seen> seen_;                               // by register
  std::vector<std::vector<ClockUpdate>> clock_updates_;  // by stage
  std::vector<std::vector<int>> sent_;                   // by stage: registers that others read
  int64_t pending_ = 0;  // fills that are looked at and not yet known to be over
};

}  // namespace

std::vector<StageLifetimes> FindLifetimes(const PlanNet& net, int stages) {
  return Observation(net, stages).Run();
}

int64_t Lifetime::fills_a_step() const { return std::ssize(fills) / kObserved; }

// One walk over all moments keeps the set of those that are alive.
Pairs FindOverlaps(const std::vector<Spans>& all) {
  int64_t moments = 0;
  for (const Spans& spans : all) {
    if (!spans.empty()) moments = std::max(moments, spans.back().second + 2);
  }
  // Events by moment: i where a span begins, ~i just after one ends; at equal moments ends come
  // first.
  std::vector<int> next(moments + 1, 0);
  for (const Spans& spans : all) {
    for (const auto& [first, last] : spans) ++next[first + 1], ++next[last + 2];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> events(next.back());
  const int n = static_cast<int>(all.size());
  for (int i = 0; i < n; ++i) {
    for (const auto& span : all[i]) events[next[span.second + 1]++] = ~i;
  }
  for (int i = 0; i < n; ++i) {
    for (const auto& span : all[i]) events[next[span.first]++] = i;
  }
  Pairs meetings(all.size());
  BitSet there(all.size());
  for (const int event : events) {
    if (event < 0) {
      there.Erase(~event);
    } else {
      meetings.Add(event, there);
      there.Insert(event);
    }
  }
  return meetings;
}

int64_t TotalLength(const Spans& spans) {
  int64_t length = 0;
  for (const auto& [first, last] : spans) length += last - first + 1;
  return length;
}

Spans UniteSpans(const Spans& a, const Spans& b) {
  Spans parts = a;
  parts.insert(parts.end(), b.begin(), b.end());
  return MergeSpans(std::move(parts));
}

Spans FillSpans(const Lifetime& life, int64_t fill, int64_t length) {
  Spans fills;
  for (int64_t step = 0; step < kObserved; ++step) {
    fills.push_back(life.fills[fill + step * life.fills_a_step()]);
  }
  return FoldIntoStep(fills, length);
}

bool MeetInBuffer(const Lifetime& a, const Lifetime& b, int64_t buffers, int64_t further) {
  const auto fills = std::ssize(a.fills);
  const int32_t *a_over = a.CompletedFills(b), *b_over = b.CompletedFills(a);
  for (int64_t buffer = 0; buffer < buffers; ++buffer) {
    const int64_t of_b = buffer < further ? buffer + buffers - further : buffer - further;
    for (int64_t i = buffer, j = of_b; i < fills && j < fills;) {
      if (a.fills[i].second < b.fills[j].first || (b_over != nullptr && i < b_over[j])) {
        i += buffers;
      } else if (b.fills[j].second < a.fills[i].first || (a_over != nullptr && j < a_over[i])) {
        j += buffers;
      } else {
        return true;
      }
    }
  }
  return false;
}

}  // namespace oneflow
