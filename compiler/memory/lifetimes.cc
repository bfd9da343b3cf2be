#include "compiler/memory/lifetimes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <string_view>

#include "oneflow_core/base/status.h"
#include "oneflow_core/net/stream_clocks.h"
#include "oneflow_core/plan/arenas.h"

namespace oneflow {
namespace {

// Fills of the first two steps are looked at: the first finds free slots everywhere, the second
// waits for what came before. The third brings the news of the second.
constexpr int64_t kObserved = 2, kSteps = 3;
// Of registers that fill once a step, what streams other than compute know of each other is looked
// up from so many bytes on: there may be thousands of small ones.
constexpr int64_t kLarge = 1 << 16;

int ComputeStream(const PlanNet& net, int stage) {
  for (const NetStream& stream : net.streams) {
    const bool computes = stream.proto->kind() == proto::Stream::COMPUTE && stream.firings > 0;
    if (stream.proto->stage() == stage && computes) return stream.proto->id();
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
  Observation(const PlanNet& net, int stages)
      : net_(net), game_(net, kSteps), seen_(net.registers.size()), news_(stages) {
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
      for (; !marking.done(s) && !marking.BlockerOf(marking.next(s)); fired = true) Fire(s);
      if (fired) ready.Wake(s);
    }
    const int stages = static_cast<int>(compute_.size());
    std::vector<StageLifetimes> result(ArenasOf(*net_.plan, stages));
    for (size_t arena = 0; arena < result.size(); ++arena) {
      const int compute = compute_[arena % stages];
      if (compute >= 0) result[arena].length = 3 * net_.streams[compute].firings;
    }
    for (const NetRegister& r : net_.registers) {
      if (r.persistent || r.proto->slot_bytes() == 0) continue;
      StageLifetimes& stage = result[ArenaOf(*r.proto, stages)];
      const int id = r.proto->id();
      const Spans fills = FillsOf(id);
      const Spans spans =
          fills.empty() ? Spans{{0, stage.length - 1}} : Folded(fills, stage.length);
      stage.registers.push_back(
          {id, r.slots, r.proto->slot_bytes(), r.workspace, spans, fills, OverOf(id)});
    }
    return result;
  }

 private:
  struct Fill {
    int64_t first = 0, last = 0;
    int unheard = 0;  // accesses still to come, or not yet known to be over
  };
  // One of those who touch a register.
  struct Toucher {
    int stream = 0;
    int news = -1;                // of its accesses, among those of the stage; -1: it is compute
    std::vector<int32_t> counts;  // its last accesses, by fill, of what is sent
  };
  struct Seen {
    bool watched = false;
    bool sent = false;     // read on another stream than compute, and others ask when it is over
    bool fetched = false;  // written on another stream than compute, and asks
    int stage = 0;
    int64_t observed = 0;  // so many fills are looked at
    std::vector<Fill> fills;
    std::vector<Toucher> touchers;           // the writer, the readers
    std::vector<std::vector<int64_t>> over;  // by what the stage sends
  };
  // Accesses of another stream that the compute stream has not heard of yet.
  struct News {
    struct Access {
      int reg = 0;
      int64_t fill = 0;
      int32_t count = 0;
    };
    int stream = 0;
    std::deque<Access> unheard;
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
    // What goes to another stage with each micro-batch is over long before compute hears of it, and
    // so are large gradients that are exchanged once a step. Of what is exchanged within the stage
    // with each micro-batch compute hears at once.
    const bool often = seen.observed >= 2 * kObserved, large = r.proto->slot_bytes() >= kLarge;
    const auto add = [&](int actor) {
      const auto& [stream, partner] =
          std::pair(net_.actors[actor].stream, net_.actors[actor].partner);
      const bool elsewhere = stream != compute_[seen.stage];
      seen.touchers.push_back({stream, elsewhere ? NewsOf(seen.stage, stream) : -1, {}});
      return elsewhere && (partner >= 0 ? often : !often && large);
    };
    const bool fetched = add(r.writer);
    // The scratch of a collective is free when it completes, which the next one of its stream
    // knows.
    bool sent = fetched && r.workspace && !often;
    for (const NetReader& reader : r.readers) sent = add(reader.actor) || sent;
    seen.fetched = fetched;
    seen.sent = sent;
    if (sent) sent_[seen.stage].push_back(id);
  }

  // Its place among those of the stage.
  int NewsOf(int stage, int stream) {
    std::vector<News>& all = news_[stage];
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const News& news) { return news.stream == stream; });
    const int place = static_cast<int>(found - all.begin());
    if (found == all.end()) all.push_back({stream, {}});
    return place;
  }

  void Fire(int stream) {
    const int actor = game_.marking().next(stream), stage = net_.actors[actor].stage;
    game_.Begin(stream);
    if (stream == compute_[stage] && game_.Learns(actor)) Hear(stage);
    const int64_t n = game_.marking().fired(actor);
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill, fill = Whole(n, per_fill);
      if (fill * per_fill == n) Begin(stream, id);
      if (Completes(n, per_fill)) Over(id, fill, stream, 0);
    }
    for (const NetInput& input : net_.inputs_of(actor)) {
      if (!Completes(n, input.fires_per_read)) continue;
      Over(input.reg, Whole(n, input.fires_per_read), stream, 1 + input.reader);
    }
    game_.End(stream);
  }

  // A fill takes its slot. A writer on another stream is later than what it knows of ours.
  void Begin(int stream, int id) {
    Seen& seen = seen_[id];
    if (!seen.watched) return;
    const int64_t first = stream == compute_[seen.stage]
                              ? 3 * int64_t{game_.count(stream) - 1} + 1
                              : std::max<int64_t>(0, 3 * KnownOfCompute(stream, seen.stage) - 1);
    seen.fills.push_back({first, first, static_cast<int>(seen.touchers.size())});
    if (seen.fetched) NoteOver(stream, id);
  }

  int64_t KnownOfCompute(int stream, int stage) const {
    return game_.Known(stream, compute_[stage]);
  }

  // What the writer of a fetched fill knows of what is sent.
  void NoteOver(int stream, int id) {
    const std::vector<int>& sent = sent_[seen_[id].stage];
    seen_[id].over.resize(sent.size());
    for (size_t k = 0; k < sent.size(); ++k) {
      const std::vector<Toucher>& touchers = seen_[sent[k]].touchers;
      std::vector<int64_t>& over = seen_[id].over[k];
      int64_t fills = over.empty() ? 0 : over.back();
      const auto known = [&](const Toucher& by) {
        return fills < std::ssize(by.counts) && game_.Known(stream, by.stream) >= by.counts[fills];
      };
      while (std::all_of(touchers.begin(), touchers.end(), known)) ++fills;
      over.push_back(fills);
    }
  }

  // The same, by register.
  std::map<int, std::vector<int64_t>> OverOf(int id) {
    std::map<int, std::vector<int64_t>> over;
    const std::vector<int>& sent = sent_[seen_[id].stage];
    for (size_t k = 0; k < seen_[id].over.size(); ++k) {
      over.emplace(sent[k], std::move(seen_[id].over[k]));
    }
    return over;
  }

  // The last access of one of those who touch a fill.
  void Over(int id, int64_t fill, int stream, int toucher) {
    Seen& seen = seen_[id];
    if (!seen.watched) return;
    Toucher& by = seen.touchers[toucher];
    if (seen.sent) by.counts.push_back(game_.count(stream));
    if (stream == compute_[seen.stage]) Extend(id, fill, 3 * int64_t{game_.count(stream) - 1} + 1);
    if (by.news < 0) return Heard(id, fill);
    news_[seen.stage][by.news].unheard.push_back({id, fill, game_.count(stream)});
  }

  void Hear(int stage) {
    const int ours = compute_[stage];
    for (News& news : news_[stage]) {
      const int32_t known = game_.Known(ours, news.stream);
      for (; !news.unheard.empty() && news.unheard.front().count <= known;
           news.unheard.pop_front()) {
        const auto& [id, fill, count] = news.unheard.front();
        Extend(id, fill, 3 * int64_t{game_.count(ours) - 1});
        Heard(id, fill);
      }
    }
  }

  void Extend(int id, int64_t fill, int64_t moment) {
    Fill& f = seen_[id].fills[fill];
    f.last = std::max(f.last, moment);
  }
  void Heard(int id, int64_t fill) {
    if (--seen_[id].fills[fill].unheard == 0 && fill < seen_[id].observed) --pending_;
  }

  // Of the fills that are looked at; none where one is not known to be over.
  Spans FillsOf(int id) const {
    if (!seen_[id].watched) return {};
    const int64_t observed = seen_[id].observed;
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
  StreamClocks game_;
  std::vector<int> compute_;             // stream, by stage; -1: none
  std::vector<Seen> seen_;               // by register
  std::vector<std::vector<News>> news_;  // by stage
  std::vector<std::vector<int>> sent_;   // by stage: registers that others read
  int64_t pending_ = 0;                  // fills that are looked at and not yet known to be over
};

}  // namespace

std::vector<StageLifetimes> LifetimesOf(const PlanNet& net, int stages) {
  return Observation(net, stages).Run();
}

int64_t Lifetime::fills_a_step() const { return std::ssize(fills) / kObserved; }

const std::vector<int64_t>* Lifetime::OverOf(const Lifetime& other) const {
  const auto found = over.find(other.reg);
  return found == over.end() ? nullptr : &found->second;
}

// One walk over all moments knows at each who is there.
Pairs Meetings(const std::vector<Spans>& all) {
  int64_t moments = 0;
  for (const Spans& spans : all) {
    if (!spans.empty()) moments = std::max(moments, spans.back().second + 2);
  }
  // What happens by moment, i for a beginning and ~i where an end has been: the ends first.
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

Spans SpansOfFill(const Lifetime& life, int64_t fill, int64_t length) {
  Spans fills;
  for (int64_t step = 0; step < kObserved; ++step) {
    fills.push_back(life.fills[fill + step * life.fills_a_step()]);
  }
  return Folded(fills, length);
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
