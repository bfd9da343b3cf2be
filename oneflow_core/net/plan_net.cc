#include "oneflow_core/net/plan_net.h"

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
                                            net.registers[i].proto->id(), " at index ", i));
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
                 absl::StrCat("actor ", actor.name(), " has id ", actor.id(), " at index ", a));
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
      readers.push_back({a, i, input.fires_per_read(), input.initial_fills()});
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

absl::Status IndexExchanges(PlanNet& net) {
  net.actors.resize(net.program->actor_size());
  for (int a = 0; a < net.program->actor_size(); ++a) {
    const proto::Actor& actor = net.program->actor(a);
    if (!actor.has_exchange()) continue;
    net.actors[a].exchange = true;
    const int group = actor.exchange().group();
    if (group < 0 || group >= net.plan->group_size()) {
      return Bad(*net.program, absl::StrCat("actor ", actor.name(), " names group ", group,
                                            ", which does not exist"));
    }
    if (!actor.exchange().has_partner()) continue;
    const int partner = actor.exchange().partner();
    const bool mutual = partner >= 0 && partner < net.program->actor_size() && partner != a &&
                        net.program->actor(partner).exchange().has_partner() &&
                        net.program->actor(partner).exchange().partner() == a;
    if (!mutual) {
      return Bad(*net.program, absl::StrCat("actor ", actor.name(), " has partner ", partner,
                                            ", which is not its own"));
    }
    net.actors[a].partner = partner;
  }
  return absl::OkStatus();
}

absl::Status IndexSegments(PlanNet& net) {
  for (int s = 0; s < net.program->segment_size(); ++s) {
    const proto::Segment& segment = net.program->segment(s);
    if (segment.id() != s) {
      return Bad(*net.program, absl::StrCat("segment ", segment.name(), " has id ", segment.id(),
                                            " at index ", s));
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

// The most actors in the runs of all streams: a damaged file must not exhaust memory.
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
                 absl::StrCat("stream ", proto.name(), " has id ", proto.id(), " at index ", s));
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

absl::Status IndexIssues(PlanNet& net) {
  int64_t listed = 0;
  for (const proto::IssueOrder& order : net.program->issue()) {
    const auto bad = [&](int actor, absl::string_view what) {
      return Bad(*net.program, absl::StrCat("the order of issue of stage ", order.stage(),
                                            " holds actor ", actor, what));
    };
    const int index = static_cast<int>(net.issues.size());
    NetIssue& issue = net.issues.emplace_back(NetIssue{order.stage(), {}});
    for (const proto::ActorRun& proto : order.run()) {
      NetStream::Run run{{}, proto.repeat()};
      listed += proto.actor_size();
      if (run.repeat < 0 || listed > kMostListed) {
        return Bad(*net.program, absl::StrCat("the order of issue of stage ", order.stage(),
                                              " is too long, or repeats ", run.repeat, " times"));
      }
      for (const int a : proto.actor()) {
        if (a < 0 || a >= std::ssize(net.actors)) return bad(a, ", which does not exist");
        NetActor& actor = net.actors[a];
        if (!actor.exchange || actor.stage != order.stage()) {
          return bad(a, ", which is no exchange of it");
        }
        if (actor.issue >= 0 && actor.issue != index) return bad(a, ", which is in another, too");
        actor.issue = index;
        run.actors.push_back(a);
      }
      if (run.repeat > 0 && !run.actors.empty()) issue.runs.push_back(std::move(run));
    }
  }
  return absl::OkStatus();
}

void SortUnique(std::vector<int>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// A firing may unblock streams that share a register with its stream, and streams whose exchanges
// come after it in the order of issue. A send fires together with its receive, so it may also
// unblock all streams that the receive may.
void JoinNeighbours(PlanNet& net) {
  std::vector<std::vector<int>> sharing(net.streams.size());
  const auto join = [&](int a, int b) {
    if (a < 0 || b < 0) return;  // in no order, which a proof refuses
    sharing[a].push_back(b);
    sharing[b].push_back(a);
  };
  for (const NetStream& stream : net.streams) sharing[stream.proto->id()] = {stream.proto->id()};
  for (const NetRegister& r : net.registers) {
    if (r.writer < 0) continue;
    for (const NetReader& reader : r.readers) {
      const int a = net.actors[r.writer].stream, b = net.actors[reader.actor].stream;
      if (a != b) join(a, b);
    }
  }
  std::vector<std::vector<int>> issuing(net.issues.size());
  for (const NetActor& actor : net.actors) {
    if (actor.issue >= 0 && actor.stream >= 0) issuing[actor.issue].push_back(actor.stream);
  }
  for (std::vector<int>& streams : issuing) {
    SortUnique(streams);
    for (const int a : streams) sharing[a].insert(sharing[a].end(), streams.begin(), streams.end());
  }
  for (std::vector<int>& streams : sharing) SortUnique(streams);
  for (size_t s = 0; s < net.streams.size(); ++s) net.streams[s].neighbours = sharing[s];
  for (const NetActor& actor : net.actors) {
    if (actor.partner < 0 || actor.stream < 0 || net.actors[actor.partner].stream < 0) continue;
    const std::vector<int>& freed = sharing[net.actors[actor.partner].stream];
    std::vector<int>& neighbours = net.streams[actor.stream].neighbours;
    neighbours.insert(neighbours.end(), freed.begin(), freed.end());
  }
  for (NetStream& stream : net.streams) SortUnique(stream.neighbours);
}

}  // namespace

std::vector<int> Unrolled(const std::vector<NetStream::Run>& runs) {
  std::vector<int> firings;
  for (const NetStream::Run& run : runs) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      firings.insert(firings.end(), run.actors.begin(), run.actors.end());
    }
  }
  return firings;
}

std::string PlanNet::ActorName(int id) const {
  const proto::Segment& segment = program->segment(actors[id].segment);
  std::string name = absl::StrCat(segment.name(), " of stage ", segment.stage());
  if (segment.actor_size() > 1) absl::StrAppend(&name, " (", actor(id).name(), ")");
  return name;
}

absl::StatusOr<PlanNet> MakePlanNet(const proto::Plan& plan, const proto::Program& program) {
  PlanNet net{&plan, &program};
  RETURN_IF_ERROR(IndexRegisters(net));
  RETURN_IF_ERROR(IndexEdges(net));
  RETURN_IF_ERROR(IndexExchanges(net));
  RETURN_IF_ERROR(IndexSegments(net));
  RETURN_IF_ERROR(IndexStreams(net));
  RETURN_IF_ERROR(IndexIssues(net));
  JoinNeighbours(net);
  return net;
}

}  // namespace oneflow
