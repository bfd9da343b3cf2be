#include "oneflow_core/plan/marking.h"

#include <algorithm>

namespace oneflow {
namespace {

// Each stream, and those that share a register with it.
std::vector<std::vector<int>> NeighboursOf(const PlanNet& net) {
  std::vector<std::vector<int>> neighbours(net.streams.size());
  const auto join = [&](int a, int b) {
    if (a != b) neighbours[a].push_back(b), neighbours[b].push_back(a);
  };
  for (size_t s = 0; s < neighbours.size(); ++s) neighbours[s].push_back(static_cast<int>(s));
  for (const NetRegister& r : net.registers) {
    if (r.writer < 0) continue;
    for (const NetReader& reader : r.readers) {
      join(net.actors[r.writer].stream, net.actors[reader.actor].stream);
    }
  }
  for (std::vector<int>& n : neighbours) {
    std::sort(n.begin(), n.end());
    n.erase(std::unique(n.begin(), n.end()), n.end());
  }
  return neighbours;
}

}  // namespace

Marking::Marking(const PlanNet& net, int64_t steps)
    : net_(&net), steps_(steps), places_(net.streams.size()), fired_(net.actors.size(), 0) {
  for (size_t s = 0; s < places_.size(); ++s) {
    if (net.streams[s].runs.empty()) places_[s].step = steps;
  }
}

Wait Marking::BlockerOf(int actor) const {
  const int64_t n = fired_[actor];
  const proto::Actor& proto = net_->actor(actor);
  for (const proto::Input& input : proto.input()) {
    const NetRegister& r = net_->registers[input.register_()];
    if (r.writer < 0) continue;  // always full
    if (input.initial_fills() + fills(r) <= n / input.fires_per_read()) {
      return {r.writer, input.register_(), false};
    }
  }
  for (int id : proto.output()) {
    const NetRegister& r = net_->registers[id];
    const int64_t per_fill = r.proto->fires_per_fill();
    if (n % per_fill != 0) continue;
    const int64_t oldest = n / per_fill - r.slots;
    for (const NetReader& reader : r.readers) {
      if (oldest < -reader.initial_fills) continue;
      if (reads(reader) < oldest + 1 + reader.initial_fills) return {reader.actor, id, true};
    }
  }
  return {};
}

void Marking::Fire(int stream) {
  const NetStream& s = net_->streams[stream];
  StreamPlace& p = places_[stream];
  ++fired_[s.runs[p.run].actors[p.index]];
  if (++p.index < s.runs[p.run].actors.size()) return;
  p.index = 0;
  if (++p.repeat < s.runs[p.run].repeat) return;
  p.repeat = 0;
  if (++p.run < s.runs.size()) return;
  p.run = 0;
  ++p.step;
}

void Marking::SkipRepeats(int stream, int64_t repeats) {
  StreamPlace& p = places_[stream];
  p.repeat += repeats;
  for (int actor : net_->streams[stream].runs[p.run].actors) fired_[actor] += repeats;
}

ReadyStreams::ReadyStreams(const PlanNet& net)
    : neighbours_(NeighboursOf(net)), queued_(net.streams.size(), true) {
  for (size_t s = 0; s < net.streams.size(); ++s) ready_.push_back(static_cast<int>(s));
}

int ReadyStreams::Pop() {
  const int s = ready_.front();
  ready_.pop_front();
  queued_[s] = false;
  return s;
}

void ReadyStreams::Wake(int stream) {
  for (int other : neighbours_[stream]) {
    if (!queued_[other]) ready_.push_back(other), queued_[other] = true;
  }
}

}  // namespace oneflow
