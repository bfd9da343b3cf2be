#include "actor_runtime/exec/instantiate.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <glog/logging.h>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// True if the streams of a device wait for each other by events, not for messages.
bool HasEvents(const proto::Plan& plan) { return plan.device_kind() != proto::CPU; }

// False if processors of the host run the stream, also for a GPU.
bool IsOfDevice(const NetStream& stream) {
  return stream.proto->kind() != proto::Stream::HOST &&
         stream.proto->kind() != proto::Stream::HOST_COMPUTE;
}

// A worker of a device never waits for a copy, or for the host's processors. A GPU copies by
// itself.
bool IsAlone(const proto::Plan& plan, const proto::Stream& stream) {
  return stream.kind() == proto::Stream::HOST_COMPUTE ||
         (stream.kind() == proto::Stream::COPY && !HasEvents(plan));
}

// StreamOrder::follows.
bool Follows(const PlanNet& net, const NetStream& stream) {
  switch (stream.proto->kind()) {
    case proto::Stream::COMPUTE: return false;
    case proto::Stream::COPY:
    case proto::Stream::HOST_COMPUTE:
      return std::none_of(stream.runs.begin(), stream.runs.end(), [&](const NetStream::Run& run) {
        return std::any_of(run.actors.begin(), run.actors.end(), [&](int actor) {
          const auto& outputs = net.actor(actor).output();
          return std::any_of(outputs.begin(), outputs.end(),
                             [&](int id) { return net.registers[id].persistent; });
        });
      });
    default: return true;
  }
}

bool IsWaitedFor(const NetRegister& reg, int reader) {
  return reg.writer >= 0 && reg.writer != reader;
}

// Specs of one program.
struct SpecMaker {
  const PlanNet& net;

  // First port of (actor, input) at its actor: sources of earlier inputs come before.
  uint32_t FirstSource(int actor, int input) const {
    uint32_t port = 0;
    for (int i = 0; i < input; ++i) {
      const proto::Input& earlier = net.actor(actor).input(i);
      if (!IsWaitedFor(net.registers[earlier.register_()], actor)) continue;
      ++port;
    }
    return port;
  }

  // First port of (actor, input) at the writer of the register it reads.
  uint32_t FirstReader(int actor, int input) const {
    const int reg = net.actor(actor).input(input).register_();
    const int writer = net.registers[reg].writer;
    uint32_t port = 0;
    for (const int output : net.actor(writer).output()) {
      for (const NetReader& reader : net.registers[output].readers) {
        if (output == reg && reader.actor == actor && reader.input == input) return port;
        if (reader.actor != writer) ++port;
      }
    }
    LOG(FATAL) << "reader " << actor << " is not among the readers of register " << reg;
  }

  NotifyWhen NotifyWhenBetween(int actor, int other) const {
    const int a = net.actors[actor].stream, b = net.actors[other].stream;
    if (a == b) return NotifyWhen::kInOrder;
    const bool of_device = IsOfDevice(net.streams[a]) && IsOfDevice(net.streams[b]);
    return of_device && HasEvents(*net.plan) ? NotifyWhen::kWithEvent : NotifyWhen::kWhenDone;
  }

  void AddInput(int actor, int i, ActorSpec* spec) const {
    const proto::Input& input = net.actor(actor).input(i);
    const NetRegister& reg = net.registers[input.register_()];
    ActorInput& in = spec->inputs.emplace_back();
    in.fires_per_read = input.fires_per_read();
    in.initial_fills = input.initial_fills();
    in.slots = reg.proto->slots();
    in.buffers = static_cast<int32_t>(BufferCount(*reg.proto));
    in.first_buffer = reg.proto->first_buffer();
    in.first_source = static_cast<int32_t>(spec->sources.size());
    // The actor's own last fill is full. With several slots it is in the slot before the one that
    // it writes now.
    const bool own = reg.writer == actor;
    in.always_full = reg.writer < 0 || (own && in.slots == 1);
    if (in.always_full || own) return;
    ActorPeer& source = spec->sources.emplace_back();
    source.actor = reg.writer;
    source.port = FirstReader(actor, i);
    source.when = NotifyWhenBetween(actor, reg.writer);
    in.n_sources = 1;
  }

  void AddOutput(int actor, int id, ActorSpec* spec) const {
    const NetRegister& reg = net.registers[id];
    ActorOutput& out = spec->outputs.emplace_back();
    out.slots = reg.proto->slots();
    out.buffers = static_cast<int32_t>(BufferCount(*reg.proto));
    out.first_buffer = reg.proto->first_buffer();
    out.fires_per_fill = reg.proto->fires_per_fill();
    out.mode = static_cast<ActorOutput::Mode>(reg.proto->fill_mode());
    out.first_reader = static_cast<int32_t>(spec->readers.size());
    for (const NetReader& reader : reg.readers) {
      if (reader.actor == actor) continue;
      ActorPeer& peer = spec->readers.emplace_back();
      peer.actor = reader.actor;
      peer.port = FirstSource(reader.actor, reader.input);
      peer.initial_fills = static_cast<int32_t>(reader.initial_fills);
      peer.when = NotifyWhenBetween(actor, reader.actor);
    }
    out.n_readers = static_cast<int32_t>(spec->readers.size()) - out.first_reader;
  }
};

static_assert(static_cast<int>(ActorOutput::kFresh) == proto::Register::FRESH);
static_assert(static_cast<int>(ActorOutput::kAccumulate) == proto::Register::ACCUMULATE);
static_assert(static_cast<int>(ActorOutput::kUpdate) == proto::Register::UPDATE);

void AddRank(const PlanNet& plan_net, const StageMesh& mesh, int rank, ActorNet* net) {
  const int stage = mesh.RankToStage(rank);
  for (int a = 0; a < net->actors_in_plan; ++a) {
    if (plan_net.actor(a).stage() != stage) continue;
    net->index[(rank - net->own.begin) * net->actors_in_plan + a] =
        static_cast<int32_t>(net->specs.size());
    net->specs.push_back(MakeSpec(plan_net, net->program_index, a, rank));
    net->stream_of.push_back(-1);
    net->index_in_stream.push_back(-1);
    net->firings.push_back(plan_net.actors[a].firings);
    net->member_of.emplace_back();
  }
  for (const NetStream& stream : plan_net.streams) {
    if (stream.proto->stage() != stage || stream.firings == 0) continue;
    StreamOrder order{static_cast<uint32_t>(rank),
                      stream.proto->id(),
                      stream.proto->kind(),
                      stream.proto->kind() == proto::Stream::HOST,
                      IsAlone(*plan_net.plan, *stream.proto),
                      Follows(plan_net, stream),
                      stream.proto->name()};
    for (const NetStream::Run& run : stream.runs) {
      std::vector<int32_t> indices;
      for (const int actor : run.actors) {
        const int32_t concrete = net->Find(rank, actor);
        if (net->stream_of[concrete] < 0) {
          net->stream_of[concrete] = static_cast<int32_t>(net->streams.size());
          net->index_in_stream[concrete] = static_cast<int32_t>(order.actors.size());
          order.actors.push_back(concrete);
        }
        indices.push_back(net->index_in_stream[concrete]);
      }
      order.firings.Add(indices, run.repeat);
    }
    net->streams.push_back(std::move(order));
  }
}

// A number on which processes agree, though each knows its own groups only: FNV-1a of the members,
// and of the ordinal of the group among those of these members in the program.
uint64_t MakeId(int32_t ordinal, const std::vector<int32_t>& ranks) {
  uint64_t id = 0xcbf29ce484222325;
  const auto add = [&id](int32_t value) {
    id = (id ^ static_cast<uint32_t>(value)) * 0x100000001b3;
  };
  add(ordinal);
  for (const int32_t rank : ranks) add(rank);
  return id;
}

// The exchanges of the devices of a process, each made once: by the first of its members here.
class ExchangeMaker {
 public:
  ExchangeMaker(const PlanNet& plan_net, const StageMesh& mesh, ActorNet* net)
      : plan_net_(plan_net), mesh_(mesh), net_(*net) {
    for (int a = 0; a < net_.actors_in_plan; ++a) {
      if (plan_net_.actor(a).has_exchange()) exchanges_.push_back(a);
    }
    // A send and its receive count once, so ordinals of groups are the same in every process.
    const auto first = [this](int a) {
      return plan_net_.actors[a].partner < 0 ? a : std::min(a, plan_net_.actors[a].partner);
    };
    std::stable_sort(exchanges_.begin(), exchanges_.end(),
                     [&](int a, int b) { return first(a) < first(b); });
  }

  void AddRank(int rank) {
    const int stage = mesh_.RankToStage(rank);
    std::map<int, std::vector<int>> ranks_of;  // by group of the plan: the ranks of `rank`'s group
    for (const int a : exchanges_) {
      const proto::Actor& actor = plan_net_.actor(a);
      if (actor.stage() != stage) continue;
      const int group = actor.exchange().group();
      const auto [ranks, fresh] = ranks_of.try_emplace(group);
      if (fresh) ranks->second = mesh_.FindMembers(plan_net_.plan->group(group), rank);
      AddExchange(a, rank, ranks->second);
    }
  }

 private:
  void AddExchange(int actor, int rank, const std::vector<int>& ranks) {
    const auto here = [&](int r) { return net_.own.Contains(r); };
    if (*std::find_if(ranks.begin(), ranks.end(), here) != rank) return;
    int partner = plan_net_.actors[actor].partner;
    if (partner < 0) partner = actor;
    const std::array<int32_t, 2> actors =
        ranks[0] == rank ? std::array{actor, partner} : std::array{partner, actor};
    const int32_t exchange = static_cast<int32_t>(net_.exchanges.size());
    net_.exchanges.push_back({FindGroup(ranks, actors), actors});
    for (int32_t m = 0; m < std::ssize(ranks); ++m) {
      const int32_t member = net_.FindMember(net_.exchanges.back(), m);
      if (member >= 0) net_.member_of[member] = {exchange, m};
    }
  }

  int32_t FindGroup(const std::vector<int>& ranks, const std::array<int32_t, 2>& actors) {
    Streams& known = groups_[ranks];
    const std::pair streams(plan_net_.actors[actors[0]].stream, plan_net_.actors[actors[1]].stream);
    const auto [group, fresh] = known.try_emplace(streams, std::ssize(net_.groups));
    if (fresh) {
      Group& added = net_.groups.emplace_back(Group{0, ranks, net_.own});
      added.id = MakeId(static_cast<int32_t>(known.size()) - 1, ranks);
    }
    return group->second;
  }

  using Streams = std::map<std::pair<int, int>, int32_t>;  // (first member, others) -> group

  const PlanNet& plan_net_;
  const StageMesh& mesh_;
  ActorNet& net_;
  std::vector<int> exchanges_;                  // actors of the program
  std::map<std::vector<int>, Streams> groups_;  // by ranks
};

void AddIssueOrder(const PlanNet& plan_net, const StageMesh& mesh, int rank, ActorNet* net) {
  IssueOrder& order = net->issues.emplace_back();
  std::map<int, int32_t> index;  // by actor
  for (const NetIssue& issue : plan_net.issues) {
    if (issue.stage != mesh.RankToStage(rank)) continue;
    for (const NetStream::Run& run : issue.runs) {
      std::vector<int32_t> indices;
      for (const int actor : run.actors) {
        const auto [it, fresh] = index.try_emplace(actor, static_cast<int32_t>(index.size()));
        if (fresh) order.actors.push_back(net->Find(rank, actor));
        indices.push_back(it->second);
      }
      order.firings.Add(indices, run.repeat);
    }
  }
}

void AddTables(ActorNet* net) {
  for (StreamOrder& stream : net->streams) {
    std::vector<const ActorSpec*> specs;
    for (const int32_t actor : stream.actors) specs.push_back(&net->specs[actor]);
    stream.table = MakeActorTable(specs);
  }
}

}  // namespace

ActorSpec MakeSpec(const PlanNet& plan_net, uint32_t program, int actor, int rank) {
  ActorSpec spec;
  spec.program = program;
  spec.rank = rank;
  spec.actor = actor;
  const SpecMaker maker{plan_net};
  const proto::Actor& proto = plan_net.actor(actor);
  for (int i = 0; i < proto.input_size(); ++i) maker.AddInput(actor, i, &spec);
  for (const int output : proto.output()) maker.AddOutput(actor, output, &spec);
  return spec;
}

absl::StatusOr<ActorNet> Instantiate(const proto::Plan& plan, int program, const StageMesh& mesh,
                                     RankRange own) {
  ASSIGN_OR_RETURN(const PlanNet plan_net, MakePlanNet(plan, plan.program(program)));
  ActorNet net;
  net.program = plan.program(program).name();
  net.program_index = program;
  net.own = own;
  net.actors_in_plan = plan.program(program).actor_size();
  for (const proto::Actor& actor : plan.program(program).actor()) net.names.push_back(actor.name());
  net.index.assign(static_cast<size_t>(own.size()) * net.actors_in_plan, -1);
  for (int rank = own.begin; rank < own.end; ++rank) AddRank(plan_net, mesh, rank, &net);
  ExchangeMaker exchanges(plan_net, mesh, &net);
  for (int rank = own.begin; rank < own.end; ++rank) {
    exchanges.AddRank(rank);
    AddIssueOrder(plan_net, mesh, rank, &net);
  }
  AddTables(&net);
  return net;
}

}  // namespace oneflow
