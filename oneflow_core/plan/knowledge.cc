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

const std::vector<std::pair<int, int>>& Interests::Common(int from, int to) const {
  const auto [it, fresh] = common_.try_emplace({from, to});
  if (!fresh) return it->second;
  for (size_t i = 0; i < streams_[from].size(); ++i) {
    const int at = IndexOf(to, streams_[from][i]);
    if (at < static_cast<int>(streams_[to].size()) && streams_[to][at] == streams_[from][i]) {
      it->second.emplace_back(static_cast<int>(i), at);
    }
  }
  return it->second;
}

void Clock::Merge(const Clock& other, AxisSet along,
                  const std::vector<std::pair<int, int>>& common) {
  for (AxisSet beta = 0; beta < (1u << axes_); ++beta) {
    const int32_t* from = &other.known_[beta * other.streams_];
    int32_t* to = &known_[(beta | along) * streams_];
    for (const auto& [theirs, ours] : common) to[ours] = std::max(to[ours], from[theirs]);
  }
  // What holds on more devices holds on fewer.
  for (int bit = 0; bit < axes_; ++bit) {
    for (AxisSet beta = 0; beta < (1u << axes_); ++beta) {
      if (beta & (1u << bit)) continue;
      const int32_t* from = &known_[(beta | (1u << bit)) * streams_];
      int32_t* to = &known_[beta * streams_];
      for (int t = 0; t < streams_; ++t) to[t] = std::max(to[t], from[t]);
    }
  }
}

}  // namespace oneflow
