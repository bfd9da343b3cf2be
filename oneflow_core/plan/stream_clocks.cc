#include "oneflow_core/plan/stream_clocks.h"

#include <algorithm>

namespace oneflow {
namespace {

// Whether the edge leaves the stream of the device, so that program order does not carry it.
bool Crosses(const PlanNet& net, const NetRegister& r, const NetReader& reader) {
  return r.writer >= 0 &&
         (!reader.along.empty() || net.actors[r.writer].stream != net.actors[reader.actor].stream);
}

}  // namespace

StreamClocks::StreamClocks(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                           int64_t steps)
    : net_(&net),
      axes_(&axes),
      interests_(&interests),
      edges_(EdgesOf(net, axes, interests)),
      marking_(net, steps),
      count_(net.streams.size(), 0),
      carried_(net.registers.size()) {
  for (size_t s = 0; s < net.streams.size(); ++s) clock_.push_back(NewClock(static_cast<int>(s)));
  for (size_t i = 0; i < net.registers.size(); ++i) Prepare(net.registers[i], &carried_[i]);
}

std::shared_ptr<const StreamClocks::Edges> StreamClocks::EdgesOf(const PlanNet& net,
                                                                 const AxisSets& axes,
                                                                 const Interests& interests) {
  const auto stage_of = [&net](int actor) { return net.actor(actor).stage(); };
  auto edges = std::make_shared<Edges>();
  edges->reader_index = ReaderIndices(net);
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    edges->first_read.push_back(static_cast<int>(edges->reads.size()));
    edges->first_credit.push_back(static_cast<int>(edges->credits.size()));
    edges->first_fill.push_back(static_cast<int>(edges->fills.size()));
    for (int i = 0; i < net.actor(a).input_size(); ++i) {
      const int reg = net.actor(a).input(i).register_(), k = edges->reader_index[a][i];
      const NetRegister& r = net.registers[reg];
      if (!Crosses(net, r, r.readers[k])) continue;
      edges->reads.push_back(
          {reg,
           k,
           r.readers[k].fires_per_read,
           r.readers[k].initial_fills,
           r.slots,
           {axes.SetOf(r.readers[k].along), &interests.Common(stage_of(r.writer), stage_of(a))}});
    }
    for (int reg : net.actor(a).output()) {
      const NetRegister& r = net.registers[reg];
      const int64_t per_fill = r.proto->fires_per_fill();
      const size_t before = edges->credits.size();
      for (size_t k = 0; k < r.readers.size(); ++k) {
        const NetReader& reader = r.readers[k];
        if (!Crosses(net, r, reader)) continue;
        edges->credits.push_back(
            {reg,
             static_cast<int>(k),
             per_fill,
             reader.initial_fills,
             r.slots,
             {axes.SetOf(reader.along), &interests.Common(stage_of(reader.actor), stage_of(a))}});
      }
      if (edges->credits.size() == before) continue;
      edges->fills.push_back({reg, per_fill, r.slots});
      edges->most_slots = std::max(edges->most_slots, r.slots);
    }
  }
  edges->first_read.push_back(static_cast<int>(edges->reads.size()));
  edges->first_credit.push_back(static_cast<int>(edges->credits.size()));
  edges->first_fill.push_back(static_cast<int>(edges->fills.size()));
  return edges;
}

void StreamClocks::Prepare(const NetRegister& r, Carried* carried) {
  carried->returned.resize(r.readers.size());
  for (size_t k = 0; k < r.readers.size(); ++k) {
    const NetReader& reader = r.readers[k];
    if (!Crosses(*net_, r, reader)) continue;
    carried->returned[k].assign(r.slots, NewClock(net_->actors[reader.actor].stream));
    if (carried->filled.empty()) {
      carried->filled.assign(r.slots, NewClock(net_->actors[r.writer].stream));
    }
  }
}

Clock StreamClocks::NewClock(int stream) const {
  return {axes_->axes(), static_cast<int>(interests_->of(StageOf(stream)).size())};
}

bool StreamClocks::Knows(int stream, AxisSet along, int of, int32_t count) const {
  return clock_[stream].known(along, interests_->IndexOf(StageOf(stream), of)) >= count;
}

int32_t StreamClocks::Completed(int stream, int of) const {
  return clock_[stream].known(0, interests_->IndexOf(StageOf(stream), of));
}

bool StreamClocks::MovesAlong(const Known& since) const {
  for (int s = 0; s < static_cast<int>(clock_.size()); ++s) {
    const std::vector<int>& streams = interests_->of(StageOf(s));
    const std::vector<int32_t>&now = clock_[s].counts(), &then = since.clocks[s].counts();
    for (size_t i = 0; i < now.size(); ++i) {
      const int of = streams[i % streams.size()];
      if (now[i] != then[i] && now[i] - then[i] != count_[of] - since.counts[of]) return false;
    }
  }
  return true;
}

void StreamClocks::Begin(int stream) {
  const int actor = marking_.next(stream);
  const int64_t n = marking_.fired(actor);
  ++count_[stream];
  for (int i = edges_->first_read[actor]; i < edges_->first_read[actor + 1]; ++i) {
    const Read& read = edges_->reads[i];
    const int64_t fill = Whole(n, read.per_read) - read.initial_fills;
    if (fill < 0) continue;
    Learn(stream, carried_[read.reg].filled[SlotOf(fill, read.slots)], read.lesson);
  }
  // A fill may start only after the readers have returned the slot's old one: that is knowledge
  // too.
  for (int i = edges_->first_credit[actor]; i < edges_->first_credit[actor + 1]; ++i) {
    const Credit& credit = edges_->credits[i];
    const int64_t fill = Whole(n, credit.per_fill), old = fill - credit.slots;
    if (fill * credit.per_fill != n || old < -credit.initial_fills) continue;
    Learn(stream, carried_[credit.reg].returned[credit.reader][SlotOf(old, credit.slots)],
          credit.lesson);
  }
}

void StreamClocks::End(int stream) {
  const int actor = marking_.next(stream);
  const int64_t n = marking_.fired(actor);
  clock_[stream].Complete(interests_->IndexOf(StageOf(stream), stream), count_[stream]);
  for (int i = edges_->first_read[actor]; i < edges_->first_read[actor + 1]; ++i) {
    const Read& read = edges_->reads[i];
    if ((n + 1) % read.per_read != 0) continue;
    const int64_t fill = Whole(n, read.per_read) - read.initial_fills;
    carried_[read.reg].returned[read.reader][SlotOf(fill, read.slots)] = clock_[stream];
  }
  for (int i = edges_->first_fill[actor]; i < edges_->first_fill[actor + 1]; ++i) {
    const Fill& fill = edges_->fills[i];
    if ((n + 1) % fill.per_fill != 0) continue;
    carried_[fill.reg].filled[SlotOf(n / fill.per_fill, fill.slots)] = clock_[stream];
  }
  marking_.Fire(stream);
}

}  // namespace oneflow
