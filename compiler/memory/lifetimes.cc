#include "compiler/memory/lifetimes.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace oneflow {
namespace {

constexpr int kNever = -1;

Spans Merged(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans merged;
  for (const auto& [first, last] : spans) {
    if (!merged.empty() && first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, last);
    } else {
      merged.push_back({first, last});
    }
  }
  return merged;
}

// What a stream hears from peers: for each set of axes, actors that read something of all of them.
class News {
 public:
  News(const PlanNet& net, int stream, const std::vector<std::vector<int>>& at) {
    for (const NetRegister& r : net.registers) {
      if (r.writer < 0 || net.actors[r.writer].stream != stream) continue;
      for (const NetReader& reader : r.readers) {
        // What waits from the step before says nothing of this one.
        if (reader.along.empty() || reader.initial_fills > 0) continue;
        if (net.actors[reader.actor].stream != stream) continue;
        const std::vector<int>& reads = at[reader.actor];
        for (size_t n = 0; n < reads.size(); ++n) {
          const size_t fill = n / reader.fires_per_read;
          const int written = at[r.writer][(fill + 1) * r.proto->fires_per_fill() - 1];
          heard_[reader.along].push_back({written, reads[n]});
        }
      }
    }
    for (auto& [along, events] : heard_) {
      // By when it was written; what is heard first of all that was written later.
      std::sort(events.begin(), events.end());
      for (size_t i = events.size(); i-- > 1;) {
        events[i - 1].second = std::min(events[i - 1].second, events[i].second);
      }
    }
  }

  // The first position at which all peers along `axes` are known to be past `position`; kNever if
  // that is only in a later step.
  int After(const std::vector<int>& axes, int position) const {
    int first = kNever;
    for (const auto& [along, events] : heard_) {
      if (!std::includes(along.begin(), along.end(), axes.begin(), axes.end())) continue;
      const auto it = std::lower_bound(events.begin(), events.end(), std::pair(position, 0));
      if (it != events.end() && (first == kNever || it->second < first)) first = it->second;
    }
    return first;
  }

 private:
  std::map<std::vector<int>, std::vector<std::pair<int, int>>> heard_;  // along -> (written, heard)
};

class StageAnalysis {
 public:
  StageAnalysis(const PlanNet& net, int stage, int stream)
      : net_(net),
        stage_(stage),
        stream_(stream),
        at_(PositionsOn(net, stream)),
        news_(net, stream, at_) {}

  StageLifetimes Run() const {
    StageLifetimes result;
    result.length = std::max<int>(1, static_cast<int>(net_.streams[stream_].firings));
    for (size_t id = 0; id < net_.registers.size(); ++id) {
      const NetRegister& r = net_.registers[id];
      if (r.persistent || r.proto->stage() != stage_ || r.proto->slot_bytes() == 0) continue;
      Lifetime life{static_cast<int>(id), r.proto->slots() * r.proto->slot_bytes()};
      life.slot_bytes = r.proto->slot_bytes();
      if (OnlyOurs(r)) {
        AddFills(r, result.length, &life);
      } else {
        life.spans = {{0, result.length - 1}};
        life.fills.assign(r.proto->slots(), life.spans[0]);
      }
      result.registers.push_back(std::move(life));
    }
    return result;
  }

 private:
  static std::vector<std::vector<int>> PositionsOn(const PlanNet& net, int stream) {
    std::vector<std::vector<int>> at(net.actors.size());
    int position = 0;
    for (int actor : Unrolled(net.streams[stream])) at[actor].push_back(position++);
    return at;
  }

  bool OnlyOurs(const NetRegister& r) const {
    return r.writer >= 0 && net_.actors[r.writer].stream == stream_ &&
           std::all_of(r.readers.begin(), r.readers.end(), [&](const NetReader& reader) {
             return net_.actors[reader.actor].stream == stream_ && reader.initial_fills == 0;
           });
  }

  void AddFills(const NetRegister& r, int length, Lifetime* life) const {
    const int64_t f = r.proto->fires_per_fill();
    const int64_t fills = static_cast<int64_t>(at_[r.writer].size()) / f;
    for (int64_t j = 0; j < fills; ++j) {
      const int first = at_[r.writer][j * f];
      int last = at_[r.writer][(j + 1) * f - 1], safe = last;
      for (const NetReader& reader : r.readers) {
        const int read = at_[reader.actor][(j + 1) * reader.fires_per_read - 1];
        last = std::max(last, read);
        const int known = reader.along.empty() ? read : news_.After(reader.along, read);
        if (known == kNever) {
          // Not before the next step: the register keeps its bytes.
          safe = length - 1;
          life->spans.push_back({0, first});
        } else {
          safe = std::max(safe, known);
        }
      }
      life->fills.push_back({first, last});
      life->spans.push_back({first, std::max(safe, last)});
    }
    life->spans = Merged(std::move(life->spans));
  }

  const PlanNet& net_;
  const int stage_, stream_;
  const std::vector<std::vector<int>> at_;
  const News news_;
};

int ComputeStream(const PlanNet& net, int stage) {
  for (const NetStream& stream : net.streams) {
    if (stream.proto->stage() == stage && stream.proto->name() == "compute")
      return stream.proto->id();
  }
  return -1;
}

}  // namespace

StageLifetimes LifetimesOf(const PlanNet& net, int stage) {
  const int stream = ComputeStream(net, stage);
  if (stream >= 0) return StageAnalysis(net, stage, stream).Run();
  StageLifetimes result;
  for (const NetRegister& r : net.registers) {
    if (r.persistent || r.proto->stage() != stage || r.proto->slot_bytes() == 0) continue;
    const Spans whole(r.proto->slots(), {0, 0});
    result.registers.push_back({r.proto->id(),
                                r.proto->slots() * r.proto->slot_bytes(),
                                {{0, 0}},
                                whole,
                                r.proto->slot_bytes()});
  }
  return result;
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

}  // namespace oneflow
