#include "oneflow_core/net/marking.h"

#include <algorithm>

namespace oneflow {

namespace {

// The positions of each actor in the order of its stream: (run, index), ascending.
using Positions = std::vector<std::vector<std::pair<size_t, size_t>>>;

Positions FindPositions(const PlanNet& net) {
  Positions positions(net.actors.size());
  for (const NetStream& stream : net.streams) {
    for (size_t run = 0; run < stream.runs.size(); ++run) {
      const std::vector<int>& actors = stream.runs[run].actors;
      for (size_t i = 0; i < actors.size(); ++i) positions[actors[i]].emplace_back(run, i);
    }
  }
  return positions;
}

// True if the order of a stream alone ensures that `reader` fires once after each firing of
// `writer`: then neither waits for the other over a register that each firing fills and reads.
bool TakeTurns(const PlanNet& net, const Positions& positions, int writer, int reader) {
  if (net.actors[writer].stream != net.actors[reader].stream) return false;
  const auto &w = positions[writer], &r = positions[reader];
  if (w.size() != r.size()) return false;
  for (size_t i = 0; i < w.size(); ++i) {
    const bool next = i + 1 == w.size() || r[i] < w[i + 1];
    if (w[i].first != r[i].first || w[i].second >= r[i].second || !next) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const Marking::Edges> Marking::MakeEdges(const PlanNet& net) {
  const Positions positions = FindPositions(net);
  const auto never_blocks = [&](const NetRegister& r, int reader, int64_t per_read,
                                int64_t initial_fills) {
    return r.fires_per_fill == 1 && per_read == 1 && initial_fills == 0 &&
           TakeTurns(net, positions, r.writer, reader);
  };
  auto edges = std::make_shared<Edges>();
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    edges->first_source.push_back(static_cast<int>(edges->sources.size()));
    edges->first_credit.push_back(static_cast<int>(edges->credits.size()));
    for (const NetInput& input : net.inputs_of(a)) {
      const NetRegister& r = net.registers[input.reg];
      if (r.writer < 0) continue;  // always full
      if (never_blocks(r, a, input.fires_per_read, input.initial_fills)) continue;
      edges->sources.push_back(
          {r.writer, input.reg, r.fires_per_fill, input.fires_per_read, input.initial_fills});
    }
    for (int id : net.outputs_of(a)) {
      const NetRegister& r = net.registers[id];
      if (r.readers.empty()) edges->unread.emplace_back(a, r.fires_per_fill);
      for (const NetReader& k : r.readers) {
        if (never_blocks(r, k.actor, k.fires_per_read, k.initial_fills)) continue;
        edges->credits.push_back(
            {k.actor, id, r.fires_per_fill, k.fires_per_read, k.initial_fills});
      }
    }
  }
  edges->first_source.push_back(static_cast<int>(edges->sources.size()));
  edges->first_credit.push_back(static_cast<int>(edges->credits.size()));
  return edges;
}

Marking::Marking(const PlanNet& net, Meeting meeting, int64_t steps)
    : net_(&net),
      meeting_(meeting),
      edges_(MakeEdges(net)),
      steps_(steps),
      positions_(net.streams.size()),
      issue_positions_(meeting == Meeting::kInOrder ? net.issues.size() : 0),
      fired_(net.actors.size(), 0) {
  for (size_t s = 0; s < positions_.size(); ++s) {
    if (net.streams[s].runs.empty()) positions_[s].step = steps;
  }
}

Wait Marking::FindBlocker(int actor) const {
  if (const Wait wait = MissingToken(actor)) return wait;
  if (meeting_ == Meeting::kAlone || !net_->actors[actor].exchange) return {};
  if (const Wait wait = EarlierIssue(actor)) return wait;
  const int partner = net_->actors[actor].partner;
  if (partner < 0) return {};
  const int stream = net_->actors[partner].stream;
  if (done(stream)) return {partner, Wait::kPartner};
  if (next(stream) != partner) return {next(stream), Wait::kPartner};
  if (const Wait wait = MissingToken(partner)) return wait;
  return EarlierIssue(partner);
}

Wait Marking::MissingToken(int actor) const {
  const int64_t n = fired_[actor];
  for (int i = edges_->first_source[actor]; i < edges_->first_source[actor + 1]; ++i) {
    const Source& s = edges_->sources[i];
    if (s.initial_fills + Quotient(fired_[s.writer], s.per_fill) <= Quotient(n, s.per_read)) {
      return {s.writer, Wait::kFill, s.reg};
    }
  }
  for (int i = edges_->first_credit[actor]; i < edges_->first_credit[actor + 1]; ++i) {
    const Credit& c = edges_->credits[i];
    const int64_t fill = Quotient(n, c.per_fill), oldest = fill - net_->registers[c.reg].slots;
    if (fill * c.per_fill != n || oldest < -c.initial_fills) continue;
    if (Quotient(fired_[c.reader], c.per_read) < oldest + 1 + c.initial_fills) {
      return {c.reader, Wait::kSlot, c.reg};
    }
  }
  return {};
}

// The exchange that must be issued before `actor`, if there is one.
Wait Marking::EarlierIssue(int actor) const {
  const int issue = net_->actors[actor].issue;
  if (issue_positions_.empty() || issue < 0) return {};
  const StreamPosition& p = issue_positions_[issue];
  const int first = net_->issues[issue].runs[p.run].actors[p.index];
  return first == actor ? Wait() : Wait{first, Wait::kOrder};
}

namespace {

// On to the next position of an order.
void Advance(const std::vector<NetStream::Run>& runs, StreamPosition& p) {
  if (++p.index < runs[p.run].actors.size()) return;
  p.index = 0;
  if (++p.repeat < runs[p.run].repeat) return;
  p.repeat = 0;
  if (++p.run < runs.size()) return;
  p.run = 0;
  ++p.step;
}

}  // namespace

void Marking::FireOne(int stream) {
  const NetStream& s = net_->streams[stream];
  StreamPosition& p = positions_[stream];
  const int actor = s.runs[p.run].actors[p.index];
  ++fired_[actor];
  Advance(s.runs, p);
  const int issue = net_->actors[actor].issue;
  if (issue_positions_.empty() || issue < 0) return;
  Advance(net_->issues[issue].runs, issue_positions_[issue]);
}

void Marking::Fire(int stream) {
  const int partner = Partner(next(stream));
  FireOne(stream);
  if (partner >= 0) FireOne(net_->actors[partner].stream);
}

void Marking::SkipRepeats(int stream, int64_t repeats) {
  StreamPosition& p = positions_[stream];
  p.repeat += repeats;
  for (int actor : net_->streams[stream].runs[p.run].actors) fired_[actor] += repeats;
}

std::vector<int> WaitsFrom(int start, const PlanNet& net, const Marking& marking) {
  std::vector<int> path;
  int s = start;
  while (!marking.done(s)) {
    const auto seen = std::find(path.begin(), path.end(), s);
    if (seen != path.end()) return {seen, path.end()};
    path.push_back(s);
    s = net.actors[marking.FindBlocker(marking.next(s)).actor].stream;
  }
  return path;
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
