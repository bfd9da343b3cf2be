// ActorNet: one program of a plan as concrete actors and streams of the devices of a process, which
// the drivers (runtime.h, and the simulator) fire. It holds token flow only: it knows no
// kernel and no byte. Its size does not depend on devices of other processes, except for the ranks
// of groups with members here and elsewhere.
//
// It is constant after Instantiate; ActorStates and positions in streams belong to the drivers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "actor_runtime/actor/actor_spec.h"
#include "actor_runtime/actor/actor_table.h"
#include "actor_runtime/exchange/group.h"
#include "actor_runtime/exec/firing_order.h"
#include "oneflow_core/plan/message.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A queue of work of one device.
struct StreamOrder {
  uint32_t rank = 0;
  int32_t id = 0;  // in the program
  proto::Stream::Kind kind = proto::Stream::COMPUTE;
  bool host = false;   // of kind HOST: the host's worker drives it
  bool alone = false;  // a worker of its own drives it; else, if it is not the host's, its device's
  // True for streams of the host and of exchanges, and for those of kinds COPY and HOST_COMPUTE
  // that write nothing that outlives the program. They follow the compute streams of a step, and
  // may go ahead of them; only the others begin a step.
  bool follows = false;
  std::string name;
  std::vector<int32_t> actors;  // concrete, in the order in which they first fire
  FiringOrder firings;          // one step: indices in `actors`
  ActorTable table;             // of `actors`
};

// Actors that fire together: one of each member of a group.
struct NetExchange {
  int32_t group = 0;              // in ActorNet::groups
  std::array<int32_t, 2> actors;  // in the program: of the first member, of all others
};

// The order in which a device issues its exchanges, if it must keep one.
struct IssueOrder {
  std::vector<int32_t> actors;  // concrete
  FiringOrder firings;          // one step: indices in `actors`
};

// The exchange that an actor is a member of.
struct ExchangeMember {
  int32_t exchange = -1;  // in ActorNet::exchanges; -1: none
  int32_t index = 0;      // among its members
};

struct ActorNet {
  std::string program;
  uint32_t program_index = 0;
  RankRange own;  // the devices of this process
  int32_t actors_in_plan = 0;

  std::vector<ActorSpec> specs;           // concrete actors, by (rank, actor)
  std::vector<int32_t> stream_of;         // for each of them: index in `streams`
  std::vector<int32_t> index_in_stream;   // by concrete actor: index in StreamOrder::actors
  std::vector<int64_t> firings;           // by concrete actor: firings in a step
  std::vector<ExchangeMember> member_of;  // for each of them
  std::vector<Group> groups;              // with a member here
  std::vector<NetExchange> exchanges;     // of these groups
  std::vector<IssueOrder> issues;         // by own rank; no actors on a rank without exchanges
  std::vector<StreamOrder> streams;       // by (rank, stream)
  std::vector<std::string> names;         // of actors, by index in the program
  // [(rank - own.begin) * actors_in_plan + actor] -> specs; -1: not on that rank
  std::vector<int32_t> index;

  // The concrete actor; -1 if it is not on that rank. Requires a rank of this process.
  int32_t Find(int32_t rank, int32_t actor) const {
    return index[static_cast<size_t>(rank - own.begin) * actors_in_plan + actor];
  }
  int32_t members(const NetExchange& exchange) const { return groups[exchange.group].members(); }
  // The concrete actor of a member; -1 if its device is in another process.
  int32_t FindMember(const NetExchange& exchange, int32_t member) const {
    const int32_t rank = groups[exchange.group].ranks[member];
    return own.Contains(rank) ? Find(rank, exchange.actors[member > 0]) : -1;
  }
  int32_t FindReceiver(const Message& m) const { return Find(m.to_rank, m.actor); }
  // "actor h.0.fc at rank 3", for a concrete actor, or for a member of an exchange.
  std::string ActorName(int32_t actor) const;
  std::string ActorName(const NetExchange& exchange, int32_t member) const;
};

// The most messages that a worker may have unread at once, if it drives the given streams of a net.
// Credits bound the messages between two streams: max(slots, initial fills) on each edge and
// direction. The result is the sum over edges from streams of other workers.
int64_t MailboxCapacity(const ActorNet& net, const std::vector<bool>& own_stream);

}  // namespace oneflow
