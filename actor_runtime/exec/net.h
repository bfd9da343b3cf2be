// ActorNet: one program of a plan as concrete actors and streams of all devices of a mesh: what the
// drivers (runtime.h, deterministic_runtime.h) fire. Token flow only: it knows no kernel and no
// byte.
//
// Constant after Instantiate; ActorStates and stream positions belong to the drivers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actor_runtime/actor/actor_spec.h"
#include "actor_runtime/actor/actor_table.h"
#include "actor_runtime/exec/firing_order.h"
#include "oneflow_core/plan/message.h"

namespace oneflow {

// A queue of work of one device.
struct StreamOrder {
  uint32_t rank = 0;
  int32_t id = 0;  // in the program
  bool host = false;
  // What it does is for the compute streams of the step, which alone begin one: streams of the host
  // and of exchanges.
  bool follows = false;
  std::string name;
  std::vector<int32_t> actors;  // concrete, in the order in which they first fire
  FiringOrder firings;          // one step: places in `actors`
  ActorTable table;             // of `actors`
};

// Concrete actors that fire together, one of each member of a group, in the group's order.
struct NetExchange {
  std::vector<int32_t> members;
};

// The order in which a device issues its exchanges, where it must keep one.
struct IssueOrder {
  std::vector<int32_t> actors;  // concrete
  FiringOrder firings;          // one step: places in `actors`
};

// Which exchange an actor is a member of.
struct ExchangeMember {
  int32_t exchange = -1;  // in ActorNet::exchanges; -1: of none
  int32_t index = 0;      // among its members
};

struct ActorNet {
  std::string program;
  uint32_t program_index = 0;
  int32_t ranks = 0;
  int32_t actors_in_plan = 0;

  std::vector<ActorSpec> specs;           // concrete actors, by (rank, actor)
  std::vector<int32_t> stream_of;         // for each of them: index in `streams`
  std::vector<int32_t> place_of;          // for each of them: place in StreamOrder::actors
  std::vector<int64_t> firings;           // of each of them in a step
  std::vector<ExchangeMember> member_of;  // for each of them
  std::vector<NetExchange> exchanges;
  std::vector<IssueOrder> issues;    // by rank; of no actors on one without exchanges
  std::vector<StreamOrder> streams;  // by (rank, stream)
  std::vector<std::string> names;    // of actors, by index in the program
  std::vector<int32_t> index;  // [rank * actors_in_plan + actor] -> specs; -1: not on that rank

  // The concrete actor; requires that it exists.
  int32_t Find(uint32_t rank, uint32_t actor) const { return index[rank * actors_in_plan + actor]; }
  int32_t ReceiverOf(const Message& m) const { return Find(m.to_rank, m.actor); }
  // "actor h.0.fc at rank 3"
  std::string NameOf(int32_t actor) const;
};

// Messages that may be unread at once between two streams of a net are bounded by credits:
// max(slots, initial fills) on each edge and direction. The bound for a worker that drives the
// given streams: the sum over edges from streams that are not its own.
int64_t MailboxCapacity(const ActorNet& net, const std::vector<bool>& own_stream);

}  // namespace oneflow
