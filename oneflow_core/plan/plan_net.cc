#include "oneflow_core/plan/plan_net.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Errors of a program: a plan is made by the compiler, so all of them mean a damaged or edited
// file.
absl::Status Bad(const proto::Program& program, const std::string& what) {
  return InputError(absl::StrCat("plan, program ", program.name()), what,
                    "the file was edited or made by another version; compile it again");
}

absl::Status IndexRegisters(PlanNet& net) {
  for (const proto::Register& r : net.plan->persistent())
    net.registers.push_back({&r, true, r.slots(), r.fires_per_fill()});
  for (const proto::Register& r : net.program->register_())
    net.registers.push_back({&r, false, r.slots(), r.fires_per_fill()});
  for (size_t i = 0; i < net.registers.size(); ++i) {
    if (net.registers[i].proto->id() != static_cast<int>(i)) {
      return Bad(*net.program, absl::StrCat("register ", net.registers[i].proto->name(), " has id ",
                                            net.registers[i].proto->id(), " at place ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status AddOutput(PlanNet& net, const proto::Actor& actor, int id) {
  if (id < 0 || id >= static_cast<int>(net.registers.size())) {
    return Bad(*net.program, absl::StrCat("actor ", actor.name(), " writes register ", id,
                                          ", which does not exist"));
  }
  NetRegister& reg = net.registers[id];
  if (reg.writer >= 0) {
    return Bad(*net.program, absl::StrCat("register ", reg.proto->name(), " has two writers, ",
                                          net.actor(reg.writer).name(), " and ", actor.name()));
  }
  reg.writer = actor.id();
  net.outputs.push_back(id);
  return absl::OkStatus();
}

absl::Status IndexEdges(PlanNet& net) {
  const int n_registers = static_cast<int>(net.registers.size());
  const auto known = [&](int id) { return id >= 0 && id < n_registers; };
  for (int a = 0; a < net.program->actor_size(); ++a) {
    net.first_input.push_back(static_cast<int>(net.inputs.size()));
    net.first_output.push_back(static_cast<int>(net.outputs.size()));
    const proto::Actor& actor = net.program->actor(a);
    if (actor.id() != a) {
      return Bad(*net.program,
                 absl::StrCat("actor ", actor.name(), " has id ", actor.id(), " at place ", a));
    }
    for (int i = 0; i < actor.input_size(); ++i) {
      const proto::Input& input = actor.input(i);
      if (!known(input.register_())) {
        return Bad(*net.program, absl::StrCat("actor ", actor.name(), " reads register ",
                                              input.register_(), ", which does not exist"));
      }
      std::vector<NetReader>& readers = net.registers[input.register_()].readers;
      net.inputs.push_back({input.register_(), static_cast<int>(readers.size()),
                            input.fires_per_read(), input.initial_fills()});
      readers.push_back({a,
                         i,
                         input.fires_per_read(),
                         input.initial_fills(),
                         {input.peers().along().begin(), input.peers().along().end()}});
    }
    for (int id : actor.output()) RETURN_IF_ERROR(AddOutput(net, actor, id));
    if (!actor.has_workspace()) continue;
    RETURN_IF_ERROR(AddOutput(net, actor, actor.workspace()));
    net.registers[actor.workspace()].workspace = true;
  }
  net.first_input.push_back(static_cast<int>(net.inputs.size()));
  net.first_output.push_back(static_cast<int>(net.outputs.size()));
  return absl::OkStatus();
}

absl::Status IndexSegments(PlanNet& net) {
  net.actors.resize(net.program->actor_size());
  for (int s = 0; s < net.program->segment_size(); ++s) {
    const proto::Segment& segment = net.program->segment(s);
    if (segment.id() != s) {
      return Bad(*net.program, absl::StrCat("segment ", segment.name(), " has id ", segment.id(),
                                            " at place ", s));
    }
    for (int a : segment.actor()) {
      if (a < 0 || a >= net.program->actor_size()) {
        return Bad(*net.program, absl::StrCat("segment ", segment.name(), " holds actor ", a,
                                              ", which does not exist"));
      }
      if (net.actors[a].segment >= 0) {
        return Bad(*net.program,
                   absl::StrCat("actor ", net.actor(a).name(), " is in two segments"));
      }
      net.actors[a].segment = s;
    }
  }
  for (size_t a = 0; a < net.actors.size(); ++a) {
    net.actors[a].stage = net.actor(static_cast<int>(a)).stage();
    if (net.actors[a].segment < 0) {
      return Bad(*net.program, absl::StrCat("actor ", net.actor(a).name(), " is in no segment"));
    }
  }
  return absl::OkStatus();
}

// Adds the actors of segment s to a run of stream `stream_id`.
absl::Status Enter(PlanNet& net, int stream_id, int s, std::vector<int>& stream_of_segment,
                   NetStream::Run* run) {
  const NetStream& stream = net.streams[stream_id];
  if (s < 0 || s >= net.program->segment_size()) {
    return Bad(*net.program, absl::StrCat("stream ", stream.proto->name(), " orders segment ", s,
                                          ", which does not exist"));
  }
  if (stream_of_segment[s] >= 0 && stream_of_segment[s] != stream_id) {
    return Bad(*net.program, absl::StrCat("segment ", net.program->segment(s).name(), " of stage ",
                                          net.program->segment(s).stage(), " is in two streams"));
  }
  stream_of_segment[s] = stream_id;
  for (int a : net.program->segment(s).actor()) {
    run->actors.push_back(a);
    net.actors[a].stream = stream_id;
    net.actors[a].firings += run->repeat;
  }
  return absl::OkStatus();
}

// Actors in the runs of all streams: a damaged file must not exhaust memory.
constexpr int64_t kMostListed = int64_t{1} << 24;

absl::Status IndexStreams(PlanNet& net) {
  std::vector<int> stream_of_segment(net.program->segment_size(), -1);
  int64_t firings = 0, listed = 0;
  net.streams.resize(net.program->stream_size());
  for (int s = 0; s < net.program->stream_size(); ++s) {
    const proto::Stream& proto = net.program->stream(s);
    NetStream& stream = net.streams[s];
    stream.proto = &proto;
    if (proto.id() != s) {
      return Bad(*net.program,
                 absl::StrCat("stream ", proto.name(), " has id ", proto.id(), " at place ", s));
    }
    for (const proto::OrderRun& order : proto.order()) {
      if (order.repeat() < 0) {
        return Bad(*net.program, absl::StrCat("stream ", proto.name(), " repeats segments ",
                                              order.repeat(), " times"));
      }
      NetStream::Run run{{}, order.repeat()};
      for (int segment : order.segment()) {
        RETURN_IF_ERROR(Enter(net, s, segment, stream_of_segment, &run));
        if (listed + std::ssize(run.actors) > kMostListed) {
          return Bad(*net.program, absl::StrCat("stream ", proto.name(), " has too many actors"));
        }
      }
      listed += std::ssize(run.actors);
      firings += run.firings();
      if (firings > kMostFirings) {
        return Bad(*net.program, absl::StrCat("stream ", proto.name(), " has too many firings"));
      }
      if (run.repeat == 0 || run.actors.empty()) continue;
      stream.firings += run.firings();
      stream.runs.push_back(std::move(run));
    }
  }
  return absl::OkStatus();
}

void JoinNeighbours(PlanNet& net) {
  const auto join = [&](int a, int b) {
    net.streams[a].neighbours.push_back(b);
    net.streams[b].neighbours.push_back(a);
  };
  for (NetStream& stream : net.streams) stream.neighbours.push_back(stream.proto->id());
  for (const NetRegister& r : net.registers) {
    if (r.writer < 0) continue;
    for (const NetReader& reader : r.readers) {
      const int a = net.actors[r.writer].stream, b = net.actors[reader.actor].stream;
      if (a != b && a >= 0 && b >= 0) join(a, b);  // -1: in no order, which a proof refuses
    }
  }
  for (NetStream& stream : net.streams) {
    std::vector<int>& n = stream.neighbours;
    std::sort(n.begin(), n.end());
    n.erase(std::unique(n.begin(), n.end()), n.end());
  }
}

}  // namespace

std::vector<int> Unrolled(const NetStream& stream) {
  std::vector<int> firings;
  firings.reserve(stream.firings);
  for (const NetStream::Run& run : stream.runs) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      firings.insert(firings.end(), run.actors.begin(), run.actors.end());
    }
  }
  return firings;
}

std::string PlanNet::NameOf(int id) const {
  const proto::Segment& segment = program->segment(actors[id].segment);
  std::string name = absl::StrCat(segment.name(), " of stage ", segment.stage());
  if (segment.actor_size() > 1) absl::StrAppend(&name, " (", actor(id).name(), ")");
  return name;
}

absl::StatusOr<PlanNet> MakePlanNet(const proto::Plan& plan, const proto::Program& program) {
  PlanNet net{&plan, &program};
  RETURN_IF_ERROR(IndexRegisters(net));
  RETURN_IF_ERROR(IndexEdges(net));
  RETURN_IF_ERROR(IndexSegments(net));
  RETURN_IF_ERROR(IndexStreams(net));
  JoinNeighbours(net);
  return net;
}

}  // namespace oneflow
