// The state of the actors of one stream, and the functions that change it: docs/firing.md as code.
//
//   ActorStates states = InitialStates(table);
//   Receive(table, message, actor, &states);
//   if (CanFire(states, actor)) {
//     Launch launch = Issue(table, actor, &states);  // notifies peers on the same stream, too
//     ... the kernel runs ...
//     Complete(table, actor, &states, &sends);       // peers elsewhere to notify, now it is done
//   }
//
// Streams of a device run asynchronously and wait for each other's events. A launch there is
// announced to the other streams before it is done:
//
//   AddNeeds(table, states, actor, &needs);            // the events that it comes after
//   Issue(...); ... give it to the stream, record its event ...
//   Announce(table, states, actor, &sends);            // peers to notify, with the event
//   ... and when the event has come: Complete(...)
//   for (int32_t peer : sends) ... MessageTo(table, states, actor, peer) ...
//
// The functions are pure: they have no I/O, no clock, no thread and no allocation (after
// sends->reserve), and their results depend on the arguments alone. Two drivers share them: the
// runtime and the simulator. They are not the checker of liveness, which plays a separate token
// game.
//
// Cost: a firing looks at its own ports and peers once. One number, updated as tokens come and go,
// says if an actor may fire.
//
// Invariants (checked by CheckInvariants), for all peers of an actor, with c = fills of its port
// that issued firings have ended, b = those they have begun:
//  1. completed <= issued. On a port, left is 0 between two fills, else the firings still missing.
//  2. At a reader: b - c <= tokens <= max(s, d): it never reads ahead of the writer, and there are
//     never more fills than the register has slots.
//  3. At a writer: tokens <= s: nobody returns a fill that was not written.
//  4. At a writer: tokens >= b - c + min(0, s - d): no slot is overwritten before it is returned.
//  5. waits == number of peers without a token.
// A message carries the receiver's own count as its sequence, so a lost, doubled or overtaken
// message is noticed at once (CHECK: our bug).
//
// Next: actor_runtime/kernel/product.cc, a kernel that an actor calls.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/actor/actor_table.h"
#include "actor_runtime/actor/line_vector.h"
#include "oneflow_core/plan/message.h"

namespace oneflow {

struct ActorStates {
  struct Count {
    int64_t issued = 0, completed = 0;  // firings
    int32_t waits = 0;                  // peers without a token
    bool operator==(const Count&) const = default;
  };
  LineVector<Count> counts;     // by actor
  LineVector<int32_t> left;     // by port: firings that the fill in progress still takes
  LineVector<int32_t> buffers;  // by port: used by the firing issued last
  LineVector<int32_t> tokens;   // by peer
  LineVector<int64_t> stamps;   // by token that came with an event: ActorTable::Peer::first_stamp
  bool operator==(const ActorStates&) const = default;
};

// One run of the actor's kernel.
struct Launch {
  int64_t firing = 0;
  bool accumulate = false;           // this firing adds to a fill that an earlier one began
  const int32_t* buffers = nullptr;  // by input, then by output; valid until the next Issue
};

ActorStates InitialStates(const ActorTable& table);
// Returns to the initial marking, in place.
void Reset(const ActorTable& table, ActorStates* states);

inline bool CanFire(const ActorStates& states, int32_t actor) {
  return states.counts[actor].waits == 0;
}

// Counts a kFilled or kReturned message. Requires that it is for this actor, in order on its port.
// `stamp` names the event that it came with, if any.
void Receive(const ActorTable& table, const Message& message, int32_t actor, ActorStates* states,
             int64_t stamp = 0);

// An event that a firing needs; it belongs to a token that `peer` gives.
struct EventNeed {
  int32_t peer = 0;  // in the table
  int64_t stamp = 0;
  bool operator==(const EventNeed&) const = default;
};
// Requires CanFire, before Issue. Appends the events that the next firing must come after: one for
// each token that it takes and that came with an event.
void AddNeeds(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<EventNeed>* needs);

// Requires CanFire. Peers on the same stream are notified at once, because a stream runs its
// launches in the order of issue.
Launch Issue(const ActorTable& table, int32_t actor, ActorStates* states);

// Called after Issue, when the firing has an event. Appends the peers on other streams of the
// device, which are notified with that event.
void Announce(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<int32_t>* sends);

// Requires completed < issued. Firings complete in the order they were issued. Appends the peers on
// other streams that are to be notified now that the firing is done.
void Complete(const ActorTable& table, int32_t actor, ActorStates* states,
              std::vector<int32_t>* sends);

// The message for a peer that the last Complete or Announce named. Message::epoch is left 0: it
// belongs to the driver.
Message MessageTo(const ActorTable& table, const ActorStates& states, int32_t actor, int32_t peer);

// True if all messages are counted and the marking is the initial one: a run of full steps is over.
bool IsDrained(const ActorTable& table, const ActorStates& states, int32_t actor);

// Checks the invariants of the actor and of the peers that its last Issue notified. A violation is
// an INTERNAL error that names the invariant.
absl::Status CheckInvariants(const ActorTable& table, const ActorStates& states, int32_t actor);

// A fill of a source, or a return of a reader, that the next firing waits for.
struct FiringWait {
  bool for_return = false;
  int32_t peer = 0;            // in the table
  int32_t slot = 0;            // to read, or to write: the buffer of the fill
  int64_t have = 0, need = 0;  // fills or returns
  bool operator==(const FiringWait&) const = default;
};
std::vector<FiringWait> FindWaits(const ActorTable& table, const ActorStates& states,
                                  int32_t actor);

}  // namespace oneflow
