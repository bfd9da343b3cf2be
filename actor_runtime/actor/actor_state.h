// The state of the actors of one stream, and the functions that move it: docs/firing.md as code.
//
//   ActorStates states = InitialStates(table);
//   Receive(table, message, actor, &states);
//   if (CanFire(states, actor)) {
//     Launch launch = Issue(table, actor, &states);  // tells the peers on the same stream, too
//     ... the kernel runs ...
//     Complete(table, actor, &states, &sends);       // whom to tell elsewhere, now that it is done
//   }
//
// Where streams run by themselves and wait for each other's events, a launch is told to the other
// streams of its device before it is done:
//
//   AddNeeds(table, states, actor, &needs);            // the events that it comes after
//   Issue(...); ... give it to the stream, record its event ...
//   Announce(table, states, actor, &sends);            // whom to tell, with the event
//   ... and when the event has come: Complete(...)
//   for (int32_t peer : sends) ... MessageTo(table, states, actor, peer) ...
//
// Pure: no I/O, no clock, no thread, no allocation (after sends->reserve), and nothing depends on
// anything but the arguments. Several drivers share it: the threaded runtime, the deterministic
// runtime and the simulator. It is not the checker of liveness: that is a token game of its own.
//
// Cost: a firing looks at its own ports and peers once; whether an actor may fire is one number,
// kept up to date as tokens come and go.
//
// Invariants (checked by CheckInvariants), for all peers of an actor, with c = fills of its port
// that issued firings have ended, b = those they have begun:
//  1. completed <= issued; left == 0 on a port between two fills, else what is missing of one.
//  2. At a reader: b - c <= tokens <= max(s, d): it never reads ahead of the writer, and never are
//     there more fills than the register has slots for.
//  3. At a writer: tokens <= s: nobody returns what was not written.
//  4. At a writer: tokens >= b - c + min(0, s - d): no slot is overwritten before it is returned.
//  5. waits == number of peers without a token.
// A message carries the receiver's own count as its sequence, so a lost, doubled or overtaken
// message is noticed at once (CHECK: our bug).
//
// Next: actor_runtime/kernel/linear.cc, a kernel that an actor calls.
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
  LineVector<int32_t> buffers;  // by port: of the firing issued last
  LineVector<int32_t> tokens;   // by peer
  LineVector<int64_t> stamps;   // of tokens that came with events: ActorTable::Peer::first_stamp
  bool operator==(const ActorStates&) const = default;
};

// Run the actor's kernel.
struct Launch {
  int64_t firing = 0;
  bool accumulate = false;           // this firing adds to a fill that an earlier one began
  const int32_t* buffers = nullptr;  // of each input, then each output; until the next Issue
};

ActorStates InitialStates(const ActorTable& table);
// Back to the initial marking, in place.
void Reset(const ActorTable& table, ActorStates* states);

inline bool CanFire(const ActorStates& states, int32_t actor) {
  return states.counts[actor].waits == 0;
}

// Counts a kFilled or kReturned message. Requires that it is for this actor, in order on its port.
// `stamp`: of the event that it came with, if it did.
void Receive(const ActorTable& table, const Message& message, int32_t actor, ActorStates* states,
             int64_t stamp = 0);

// An event that a firing needs: of a token that `peer` gives.
struct EventNeed {
  int32_t peer = 0;  // in the table
  int64_t stamp = 0;
  bool operator==(const EventNeed&) const = default;
};
// Requires CanFire, before Issue. Appends the events that the next firing must come after, one for
// each token that it takes and that came with one.
void AddNeeds(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<EventNeed>* needs);

// Requires CanFire. Peers on the same stream are told at once: what a stream issues, it runs in
// order.
Launch Issue(const ActorTable& table, int32_t actor, ActorStates* states);

// After Issue, when the firing has an event: appends the peers on other streams of the device,
// which are told with it.
void Announce(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<int32_t>* sends);

// Requires completed < issued. Firings complete in the order they were issued. Appends the peers on
// other streams that are to be told now that it is done.
void Complete(const ActorTable& table, int32_t actor, ActorStates* states,
              std::vector<int32_t>* sends);

// What to tell a peer that the last Complete or Announce named. Message::epoch is left 0: it
// belongs to the driver.
Message MessageTo(const ActorTable& table, const ActorStates& states, int32_t actor, int32_t peer);

// All messages are counted and the tokens lie as at the start: a run of whole steps is over.
bool IsDrained(const ActorTable& table, const ActorStates& states, int32_t actor);

// Of the actor and of those its last Issue told. One that does not hold is an INTERNAL error that
// names it.
absl::Status CheckInvariants(const ActorTable& table, const ActorStates& states, int32_t actor);

// What the next firing waits for: a source's fill, or the return of a reader.
struct FiringWait {
  bool for_return = false;
  int32_t peer = 0;            // in the table
  int32_t slot = 0;            // to read, or to write: the buffer of the fill
  int64_t have = 0, need = 0;  // fills or returns
  bool operator==(const FiringWait&) const = default;
};
std::vector<FiringWait> WaitsOf(const ActorTable& table, const ActorStates& states, int32_t actor);

}  // namespace oneflow
