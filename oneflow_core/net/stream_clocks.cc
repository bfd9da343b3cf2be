#include "oneflow_core/net/stream_clocks.h"

namespace oneflow {

// Lays the clocks of a game and lists its edges.
class StreamClocks::EdgesBuilder {
 public:
  explicit EdgesBuilder(const PlanNet& net) : net_(net), clocks_(net.registers.size()) {}

  Edges Build() && {
    for (const NetStream& stream : net_.streams) AddIndex(stream);
    for (int s = 0; s < static_cast<int>(net_.streams.size()); ++s) AddOwn(s);
    edges_.own_end = edges_.end;
    for (int reg = 0; reg < static_cast<int>(net_.registers.size()); ++reg) AddCarried(reg);
    for (int a = 0; a < static_cast<int>(net_.actors.size()); ++a) AddActor(a);
    BeginActor();
    return std::move(edges_);
  }

 private:
  // Where the clocks of a register begin.
  struct Clocks {
    size_t filled = 0;
    std::vector<size_t> returned;  // by reader
  };

  int StageOf(int stream) const { return net_.streams[stream].proto->stage(); }

  void AddIndex(const NetStream& stream) {
    const size_t stage = stream.proto->stage();
    if (edges_.streams_of.size() <= stage) edges_.streams_of.resize(stage + 1);
    std::vector<int>& streams = edges_.streams_of[stage];
    edges_.index.push_back(static_cast<int>(streams.size()));
    streams.push_back(stream.proto->id());
  }

  void AddOwn(int stream) {
    const int size = static_cast<int>(edges_.streams_of[StageOf(stream)].size());
    edges_.own.push_back({edges_.end, size});
    edges_.end += size;
  }

  size_t AddClocks(int reg, int reader, int actor) {
    const int64_t slots = net_.registers[reg].slots;
    const int stream = net_.actors[actor].stream;
    const size_t begin = edges_.end;
    edges_.carried.push_back({begin, slots, stream, reg, reader});
    edges_.end += slots * edges_.own[stream].size;
    return begin;
  }

  void AddCarried(int reg) {
    const NetRegister& r = net_.registers[reg];
    Clocks& clocks = clocks_[reg];
    clocks.returned.resize(r.readers.size());
    bool crosses = false;
    for (int k = 0; k < static_cast<int>(r.readers.size()); ++k) {
      if (!Crosses(net_, r, r.readers[k])) continue;
      clocks.returned[k] = AddClocks(reg, k, r.readers[k].actor);
      crosses = true;
    }
    if (crosses) clocks.filled = AddClocks(reg, -1, r.writer);
  }

  void BeginActor() {
    edges_.first_read.push_back(static_cast<int>(edges_.reads.size()));
    edges_.first_credit.push_back(static_cast<int>(edges_.credits.size()));
    edges_.first_fill.push_back(static_cast<int>(edges_.fills.size()));
  }

  void AddActor(int a) {
    BeginActor();
    for (const NetInput& input : net_.inputs_of(a)) {
      const NetRegister& r = net_.registers[input.reg];
      const NetReader& reader = r.readers[input.reader];
      if (!Crosses(net_, r, reader)) continue;
      const Clocks& clocks = clocks_[input.reg];
      edges_.reads.push_back({clocks.filled, clocks.returned[input.reader], input.fires_per_read,
                              input.initial_fills, r.slots});
    }
    for (int reg : net_.outputs_of(a)) AddOutput(a, reg);
  }

  void AddOutput(int a, int reg) {
    const NetRegister& r = net_.registers[reg];
    const int64_t per_fill = r.fires_per_fill;
    bool crosses = false;
    for (size_t k = 0; k < r.readers.size(); ++k) {
      const NetReader& reader = r.readers[k];
      if (!Crosses(net_, r, reader)) continue;
      crosses = true;
      edges_.credits.push_back({clocks_[reg].returned[k], per_fill, reader.initial_fills, r.slots});
    }
    if (crosses) edges_.fills.push_back({clocks_[reg].filled, per_fill, r.slots});
  }

  const PlanNet& net_;
  std::vector<Clocks> clocks_;  // by register
  Edges edges_;
};

StreamClocks::StreamClocks(const PlanNet& net, int64_t steps)
    : net_(&net),
      edges_(std::make_shared<const Edges>(EdgesBuilder(net).Build())),
      marking_(net, Meeting::kAlone, steps),
      count_(net.streams.size(), 0),
      known_(edges_->end, 0) {}

bool StreamClocks::MovesAlong(const Snapshot& since) const {
  for (int s = 0; s < static_cast<int>(edges_->own.size()); ++s) {
    size_t at = edges_->own[s].begin;
    for (const int of : edges_->streams_of[net_->streams[s].proto->stage()]) {
      const int32_t moved = known_[at] - since.known[at];
      if (moved != 0 && moved != count_[of] - since.counts[of]) return false;
      ++at;
    }
  }
  return true;
}

std::vector<int32_t> StreamClocks::Spread(const std::vector<int32_t>& by_stream) const {
  std::vector<int32_t> spread;
  spread.reserve(known_.size());
  const auto add = [&](int stream, int64_t slots) {
    for (int64_t i = 0; i < slots; ++i) {
      for (const int of : edges_->streams_of[net_->streams[stream].proto->stage()]) {
        spread.push_back(by_stream[of]);
      }
    }
  };
  for (int s = 0; s < static_cast<int>(edges_->own.size()); ++s) add(s, 1);
  for (const Carried& carried : edges_->carried) add(carried.stream, carried.slots);
  return spread;
}

void StreamClocks::Skip(const Cycle& cycle, int64_t times, const std::vector<int32_t>& firings,
                        const std::vector<int32_t>& moved) {
  std::vector<int64_t> told;  // by carried
  for (const Carried& carried : edges_->carried) told.push_back(Told(carried));
  oneflow::Skip(cycle, times, &marking_);
  const auto move = [times](const std::vector<int32_t>& by, std::vector<int32_t>* counts) {
    for (size_t i = 0; i < by.size(); ++i) (*counts)[i] += static_cast<int32_t>(times * by[i]);
  };
  move(firings, &count_);
  move(moved, &known_);
  for (size_t i = 0; i < told.size(); ++i) {
    const Carried& carried = edges_->carried[i];
    Turn(known_.begin() + carried.begin, carried.slots, Told(carried) - told[i],
         edges_->own[carried.stream].size);
  }
}

void StreamClocks::Begin(int stream) {
  const int actor = marking_.next(stream);
  const int64_t n = marking_.fired(actor);
  ++count_[stream];
  for (int i = edges_->first_read[actor]; i < edges_->first_read[actor + 1]; ++i) {
    const Read& read = edges_->reads[i];
    const int64_t fill = Whole(n, read.per_read) - read.initial_fills;
    if (fill < 0) continue;
    Learn(stream, read.filled, InTurn(fill, read.slots));
  }
  // A fill may start only after the readers have returned the slot's old one: that is knowledge
  // too.
  for (int i = edges_->first_credit[actor]; i < edges_->first_credit[actor + 1]; ++i) {
    const Credit& credit = edges_->credits[i];
    const int64_t fill = Whole(n, credit.per_fill), old = fill - credit.slots;
    if (fill * credit.per_fill != n || old < -credit.initial_fills) continue;
    Learn(stream, credit.returned, InTurn(old, credit.slots));
  }
}

void StreamClocks::End(int stream) {
  const int actor = marking_.next(stream);
  const int64_t n = marking_.fired(actor);
  known_[edges_->own[stream].begin + edges_->index[stream]] = count_[stream];
  for (int i = edges_->first_read[actor]; i < edges_->first_read[actor + 1]; ++i) {
    const Read& read = edges_->reads[i];
    if (!Completes(n, read.per_read)) continue;
    Tell(stream, read.returned, InTurn(Whole(n, read.per_read) - read.initial_fills, read.slots));
  }
  for (int i = edges_->first_fill[actor]; i < edges_->first_fill[actor + 1]; ++i) {
    const Fill& fill = edges_->fills[i];
    if (!Completes(n, fill.per_fill)) continue;
    Tell(stream, fill.filled, InTurn(Whole(n, fill.per_fill), fill.slots));
  }
  marking_.Fire(stream);
}

}  // namespace oneflow
