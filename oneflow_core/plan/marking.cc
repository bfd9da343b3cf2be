#include "oneflow_core/plan/marking.h"

namespace oneflow {

std::shared_ptr<const Marking::Edges> Marking::EdgesOf(const PlanNet& net) {
  auto edges = std::make_shared<Edges>();
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    edges->first_source.push_back(static_cast<int>(edges->sources.size()));
    edges->first_output.push_back(static_cast<int>(edges->outputs.size()));
    for (const proto::Input& input : net.actor(a).input()) {
      const NetRegister& r = net.registers[input.register_()];
      if (r.writer < 0) continue;  // always full
      edges->sources.push_back({r.writer, input.register_(), r.proto->fires_per_fill(),
                                input.fires_per_read(), input.initial_fills()});
    }
    for (int id : net.actor(a).output()) edges->outputs.push_back(id);
  }
  edges->first_source.push_back(static_cast<int>(edges->sources.size()));
  edges->first_output.push_back(static_cast<int>(edges->outputs.size()));
  return edges;
}

Marking::Marking(const PlanNet& net, int64_t steps)
    : net_(&net),
      edges_(EdgesOf(net)),
      steps_(steps),
      places_(net.streams.size()),
      fired_(net.actors.size(), 0) {
  for (size_t s = 0; s < places_.size(); ++s) {
    if (net.streams[s].runs.empty()) places_[s].step = steps;
  }
}

Wait Marking::BlockerOf(int actor) const {
  const int64_t n = fired_[actor];
  for (int i = edges_->first_source[actor]; i < edges_->first_source[actor + 1]; ++i) {
    const Source& s = edges_->sources[i];
    if (s.initial_fills + Whole(fired_[s.writer], s.per_fill) <= Whole(n, s.per_read)) {
      return {s.writer, s.reg, false};
    }
  }
  for (int i = edges_->first_output[actor]; i < edges_->first_output[actor + 1]; ++i) {
    const NetRegister& r = net_->registers[edges_->outputs[i]];
    const int64_t per_fill = r.proto->fires_per_fill(), fill = Whole(n, per_fill);
    if (fill * per_fill != n) continue;
    const int64_t oldest = fill - r.slots;
    for (const NetReader& reader : r.readers) {
      if (oldest < -reader.initial_fills) continue;
      if (reads(reader) < oldest + 1 + reader.initial_fills) {
        return {reader.actor, edges_->outputs[i], true};
      }
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

ReadyStreams::ReadyStreams(const PlanNet& net) : net_(&net), queued_(net.streams.size(), true) {
  for (size_t s = 0; s < net.streams.size(); ++s) ready_.push_back(static_cast<int>(s));
}

int ReadyStreams::Pop() {
  const int s = ready_.front();
  ready_.pop_front();
  queued_[s] = false;
  return s;
}

void ReadyStreams::Wake(int stream) {
  for (int other : net_->streams[stream].neighbours) {
    if (!queued_[other]) ready_.push_back(other), queued_[other] = true;
  }
}

}  // namespace oneflow
