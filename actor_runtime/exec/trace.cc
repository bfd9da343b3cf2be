#include "actor_runtime/exec/trace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "actor_runtime/exec/trace_memory.h"
#include "oneflow_core/plan/arenas.h"

namespace oneflow {

// Copies a trace to its message.
class TraceCopier {
 public:
  TraceCopier(const Trace& trace, const proto::Plan& plan) : trace_(trace), plan_(plan) {}

  proto::ProcessTrace Copy() {
    for (size_t r = 0; r < trace_.runs_.size(); ++r) CopyRun(static_cast<int32_t>(r));
    to_.set_dropped(trace_.dropped());
    return std::move(to_);
  }

 private:
  int32_t Track(const StreamOrder& stream) {
    const auto [entry, fresh] =
        tracks_.try_emplace({stream.rank, stream.name}, static_cast<int32_t>(tracks_.size()));
    if (fresh) {
      proto::ProcessTrace::Track* track = to_.add_track();
      track->set_rank(static_cast<int32_t>(stream.rank));
      track->set_name(stream.name);
      track->set_host(stream.host);
    }
    return entry->second;
  }

  int32_t Name(const std::string& name) {
    const auto [entry, fresh] = names_.try_emplace(name, static_cast<int32_t>(names_.size()));
    if (fresh) to_.add_name(name);
    return entry->second;
  }

  void CopyRun(int32_t r) {
    const Trace::TracedRun& run = trace_.runs_[r];
    const ActorNet& net = *run.net;
    TracedFirings ends;
    int64_t known = std::numeric_limits<int64_t>::max();  // nothing is missing before
    for (const TraceBuffer& buffer : run.buffers) {
      for (const TraceEvent& event : buffer.events()) ends[{event.actor, event.firing}] = &event;
      if (buffer.dropped() == 0) continue;
      known = std::min(known, buffer.events().empty() ? 0 : buffer.events().back().end_ns);
    }
    CopyMemory(net, ends, known, proto::DEVICE);
    if (RestsOnHost(plan_)) CopyMemory(net, ends, known, proto::HOST);
    for (size_t s = 0; s < run.buffers.size(); ++s) {
      if (run.buffers[s].events().empty()) continue;
      const int32_t track = Track(net.streams[s]);
      proto::ProcessTrace::Firings* to = to_.add_firings();
      to->set_track(track);
      to->set_program(net.program);
      for (const TraceEvent& event : run.buffers[s].events()) {
        to->add_name(Name(net.names[net.specs[event.actor].actor]));
        to->add_begin(event.begin_ns);
        to->add_end(event.end_ns);
        to->add_step(run.first_step + event.firing / net.firings[event.actor]);
        to->add_firing(event.firing);
        to->add_number(event.firing % net.firings[event.actor]);
        to->add_ready(FindReady(net, event, ends));
        CopyArrows(net, event, track, ends);
        CopyJoint(net, r, event, track);
      }
    }
  }

  static int64_t FindReady(const ActorNet& net, const TraceEvent& event,
                           const TracedFirings& ends) {
    const int32_t x = net.member_of[event.actor].exchange;
    int64_t ready = event.begin_ns;
    for (int32_t m = 0; x >= 0 && m < net.members(net.exchanges[x]); ++m) {
      const auto member = ends.find({net.FindMember(net.exchanges[x], m), event.firing});
      if (member == ends.end()) return event.begin_ns;  // elsewhere, or dropped
      ready = std::max(ready, member->second->begin_ns);
    }
    return std::min(ready, event.end_ns);
  }

  void CopyMemory(const ActorNet& net, const TracedFirings& ends, int64_t known,
                  proto::MemoryKind kind) {
    for (const auto& [rank, curve] : TracedMemory(plan_, net, ends, known, kind)) {
      proto::ProcessTrace::Memory* memory = to_.add_memory();
      memory->set_rank(rank);
      memory->set_host(kind == proto::HOST);
      for (const auto& [time, bytes] : curve) {
        memory->add_time(time);
        memory->add_bytes(bytes);
      }
    }
  }

  // Copies arrows from the firings whose fills this firing is the first to read.
  void CopyArrows(const ActorNet& net, const TraceEvent& event, int32_t track,
                  const TracedFirings& ends) {
    const ActorSpec& spec = net.specs[event.actor];
    for (const ActorInput& input : spec.inputs) {
      if (input.always_full || event.firing % input.fires_per_read != 0) continue;
      const int64_t fill = event.firing / input.fires_per_read - input.initial_fills;
      for (int32_t p = input.first_source; fill >= 0 && p < input.first_source + input.n_sources;
           ++p) {
        if (spec.sources[p].when == NotifyWhen::kInOrder) continue;
        const int32_t writer = net.Find(spec.rank, spec.sources[p].actor);
        const auto end =
            ends.find({writer, (fill + 1) * FiresPerFill(net.specs[writer], spec.sources[p]) - 1});
        if (end == ends.end()) continue;  // dropped
        proto::ProcessTrace::Arrows* arrows = to_.mutable_arrows();
        arrows->add_from_track(Track(net.streams[net.stream_of[writer]]));
        // An arrow starts inside the slice of its source.
        arrows->add_from(std::max(end->second->begin_ns, end->second->end_ns - 1));
        arrows->add_to_track(track);
        arrows->add_to(event.begin_ns);
      }
    }
  }

  void CopyJoint(const ActorNet& net, int32_t run, const TraceEvent& event, int32_t track) {
    const ExchangeMember& member = net.member_of[event.actor];
    if (member.exchange < 0) return;
    const NetExchange& exchange = net.exchanges[member.exchange];
    const std::vector<int32_t>& ranks = net.groups[exchange.group].ranks;
    if (std::all_of(ranks.begin(), ranks.end(),
                    [&](int32_t rank) { return net.own.Contains(rank); })) {
      return;
    }
    proto::ProcessTrace::Joint* joint = to_.mutable_joint();
    joint->add_run(run);
    joint->add_rank(ranks[0]);
    joint->add_actor(exchange.actors[0]);
    joint->add_firing(event.firing);
    joint->add_track(track);
    joint->add_begin(event.begin_ns);
    joint->add_end(event.end_ns);
    joint->add_sends(member.index == 0 && exchange.actors[0] != exchange.actors[1]);
  }

  static int64_t FiresPerFill(const ActorSpec& writer, const ActorPeer& source) {
    for (const ActorOutput& output : writer.outputs) {
      const int32_t port = static_cast<int32_t>(source.port) - output.first_reader;
      if (port >= 0 && port < output.n_readers) return output.fires_per_fill;
    }
    return 1;
  }

  const Trace& trace_;
  const proto::Plan& plan_;
  proto::ProcessTrace to_;
  std::map<std::pair<uint32_t, std::string>, int32_t> tracks_;
  std::map<std::string, int32_t> names_;
};

void Trace::Begin(const ActorNet& net, int64_t first_step, int64_t steps) {
  TracedRun& run = runs_.emplace_back();
  run.net = &net;
  run.first_step = first_step;
  std::vector<int64_t>& left =
      left_.try_emplace(&net, net.streams.size(), events_per_stream_).first->second;
  for (size_t s = 0; s < net.streams.size(); ++s) {
    const auto a_step = net.streams[s].firings.size();
    const bool all = a_step == 0 || steps <= left[s] / a_step;
    const int64_t room = all ? steps * a_step : left[s];
    run.buffers.emplace_back(room);
    left[s] -= room;
  }
}

proto::ProcessTrace Trace::ToProto(const proto::Plan& plan) const {
  return TraceCopier(*this, plan).Copy();
}

int64_t Trace::dropped() const {
  int64_t dropped = 0;
  for (const TracedRun& run : runs_) {
    for (const TraceBuffer& buffer : run.buffers) dropped += buffer.dropped();
  }
  return dropped;
}

}  // namespace oneflow
