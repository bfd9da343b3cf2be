#include "oneflow_core/plan/knowledge.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int kMaxAxes = 8;

void SortUnique(std::vector<int>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

}  // namespace

absl::StatusOr<AxisSets> AxisSets::Of(const PlanNet& net) {
  AxisSets sets;
  for (const NetRegister& r : net.registers) {
    for (const NetReader& reader : r.readers) {
      for (int axis : reader.along) sets.bit_.emplace(axis, 0);
    }
  }
  if (sets.axes() > kMaxAxes) {
    return InputError("plan", absl::StrCat("communicates along ", sets.axes(), " mesh axes"),
                      absl::StrCat("use at most ", kMaxAxes));
  }
  int next = 0;
  for (auto& [axis, bit] : sets.bit_) bit = next++;
  return sets;
}

AxisSet AxisSets::SetOf(const std::vector<int>& along) const {
  AxisSet set = 0;
  for (int axis : along) set |= 1u << bit_.at(axis);
  return set;
}

Interests::Interests(const PlanNet& net) : streams_(net.plan->memory_size()) {
  const auto touches = [&](const NetRegister& r, int actor) {
    streams_[r.proto->stage()].push_back(net.actors[actor].stream);
  };
  for (const NetStream& stream : net.streams) {
    streams_[stream.proto->stage()].push_back(stream.proto->id());
  }
  std::set<std::pair<int, int>> told;  // (stage, by stage), more than once a step
  for (const NetRegister& r : net.registers) {
    if (r.writer >= 0) touches(r, r.writer);
    for (const NetReader& reader : r.readers) {
      touches(r, reader.actor);
      const int stage = net.actor(reader.actor).stage();
      if (r.writer >= 0 && net.actors[r.writer].firings > 1 && stage != r.proto->stage()) {
        told.emplace(stage, r.proto->stage());
      }
    }
  }
  for (std::vector<int>& streams : streams_) SortUnique(&streams);
  const std::vector<std::vector<int>> own = streams_;
  for (const auto& [stage, by] : told) {
    streams_[stage].insert(streams_[stage].end(), own[by].begin(), own[by].end());
  }
  for (std::vector<int>& streams : streams_) SortUnique(&streams);
}

int Interests::IndexOf(int stage, int stream) const {
  const std::vector<int>& streams = streams_[stage];
  return static_cast<int>(std::lower_bound(streams.begin(), streams.end(), stream) -
                          streams.begin());
}

CommonStreams Interests::Common(int from, int to) const {
  if (from == to) return nullptr;
  const auto [it, fresh] = common_.try_emplace({from, to});
  if (!fresh) return &it->second;
  for (size_t i = 0; i < streams_[from].size(); ++i) {
    const int at = IndexOf(to, streams_[from][i]);
    if (at < static_cast<int>(streams_[to].size()) && streams_[to][at] == streams_[from][i]) {
      it->second.emplace_back(static_cast<int>(i), at);
    }
  }
  return &it->second;
}

namespace {

// counts[i] = max(counts[i], others[i]), which do not overlap.
void TakeMax(const int32_t* __restrict others, int n, int32_t* __restrict counts) {
  for (int i = 0; i < n; ++i) counts[i] = std::max(counts[i], others[i]);
}

}  // namespace

// What holds on more devices holds on fewer, and clocks know so: of all sets that lead to `beta`
// with `along`, the smallest tells the most.
void Learn(const int32_t* from, const ClockShape& theirs, AxisSet along, CommonStreams common,
           int32_t* to, const ClockShape& ours) {
  if (common == nullptr && along == 0) return TakeMax(from, ours.size(), to);
  const AxisSet sets = 1u << ours.axes;
  for (AxisSet beta = 0; beta < sets; ++beta) {
    const int32_t* news = from + theirs.at(beta & ~along, 0);
    int32_t* known = to + ours.at(beta, 0);
    if (common == nullptr) {
      TakeMax(news, ours.streams, known);
    } else {
      for (const auto& [a, b] : *common) known[b] = std::max(known[b], news[a]);
    }
  }
}

}  // namespace oneflow
