#include "oneflow_core/plan/stream_clocks.h"

namespace oneflow {

StreamClocks::StreamClocks(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                           int64_t steps)
    : net_(&net),
      axes_(&axes),
      interests_(&interests),
      reader_index_(net.actors.size()),
      marking_(net, steps),
      count_(net.streams.size(), 0),
      carried_(net.registers.size()) {
  for (size_t s = 0; s < net.streams.size(); ++s) clock_.push_back(NewClock(static_cast<int>(s)));
  for (size_t i = 0; i < net.registers.size(); ++i) Prepare(net.registers[i], &carried_[i]);
}

void StreamClocks::Prepare(const NetRegister& r, Carried* carried) {
  carried->returned.resize(r.readers.size());
  for (size_t k = 0; k < r.readers.size(); ++k) {
    const NetReader& reader = r.readers[k];
    std::vector<int>& of = reader_index_[reader.actor];
    of.resize(net_->actor(reader.actor).input_size());
    of[reader.input] = static_cast<int>(k);
    if (r.writer < 0 || !Crosses(r, reader)) continue;
    carried->returned[k].assign(r.slots, NewClock(net_->actors[reader.actor].stream));
    if (carried->filled.empty()) {
      carried->filled.assign(r.slots, NewClock(net_->actors[r.writer].stream));
    }
  }
}

// Whether the edge leaves the stream of the device, so that program order does not carry it.
bool StreamClocks::Crosses(const NetRegister& r, const NetReader& reader) const {
  return !reader.along.empty() ||
         net_->actors[r.writer].stream != net_->actors[reader.actor].stream;
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

void StreamClocks::Learn(int stream, const Clock& other, int from_stream,
                         const std::vector<int>& along) {
  clock_[stream].Merge(other, axes_->SetOf(along),
                       interests_->Common(StageOf(from_stream), StageOf(stream)));
}

void StreamClocks::Begin(int stream) {
  const int actor = marking_.next(stream);
  const proto::Actor& a = net_->actor(actor);
  ++count_[stream];
  for (int i = 0; i < a.input_size(); ++i) TakeFill(stream, actor, i);
  for (int id : a.output()) TakeCredits(stream, actor, id);
}

void StreamClocks::End(int stream) {
  const int actor = marking_.next(stream);
  const proto::Actor& a = net_->actor(actor);
  clock_[stream].Complete(interests_->IndexOf(StageOf(stream), stream), count_[stream]);
  for (int i = 0; i < a.input_size(); ++i) Return(stream, actor, i);
  for (int id : a.output()) Publish(stream, actor, id);
  marking_.Fire(stream);
}

void StreamClocks::TakeFill(int stream, int actor, int i) {
  const proto::Input& input = net_->actor(actor).input(i);
  const NetRegister& r = net_->registers[input.register_()];
  const int64_t fill = marking_.fired(actor) / input.fires_per_read() - input.initial_fills();
  if (r.writer < 0 || fill < 0) return;
  const NetReader& reader = r.readers[reader_index_[actor][i]];
  if (!Crosses(r, reader)) return;
  Learn(stream, carried_[input.register_()].filled[SlotOf(fill, r.slots)],
        net_->actors[r.writer].stream, reader.along);
}

// A fill may start only after the readers have returned the slot's old one: that is knowledge too.
void StreamClocks::TakeCredits(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  const int64_t n = marking_.fired(actor);
  if (n % r.proto->fires_per_fill() != 0) return;
  const int64_t old = n / r.proto->fires_per_fill() - r.slots;
  for (size_t k = 0; k < r.readers.size(); ++k) {
    const NetReader& reader = r.readers[k];
    if (old < -reader.initial_fills || !Crosses(r, reader)) continue;
    Learn(stream, carried_[id].returned[k][SlotOf(old, r.slots)], net_->actors[reader.actor].stream,
          reader.along);
  }
}

void StreamClocks::Return(int stream, int actor, int i) {
  const proto::Input& input = net_->actor(actor).input(i);
  const NetRegister& r = net_->registers[input.register_()];
  std::vector<Clock>& returned = carried_[input.register_()].returned[reader_index_[actor][i]];
  const int64_t n = marking_.fired(actor);
  if ((n + 1) % input.fires_per_read() != 0 || returned.empty()) return;
  const int64_t fill = n / input.fires_per_read() - input.initial_fills();
  returned[SlotOf(fill, r.slots)] = clock_[stream];
}

void StreamClocks::Publish(int stream, int actor, int id) {
  const NetRegister& r = net_->registers[id];
  const int64_t n = marking_.fired(actor), per_fill = r.proto->fires_per_fill();
  if ((n + 1) % per_fill != 0 || carried_[id].filled.empty()) return;
  carried_[id].filled[SlotOf(n / per_fill, r.slots)] = clock_[stream];
}

}  // namespace oneflow
