// The state of an actor on one device, and the four functions that move it: docs/firing.md as code.
//
//   ActorState state = InitialState(spec);
//   Receive(spec, message, &state);
//   if (CanFire(spec, state)) {
//     Issue(spec, &state, &actions);     // Launch, and messages that may leave at issue
//     ... the kernel runs ...
//     Complete(spec, &state, &actions);  // messages that wait for the work to be done
//   }
//
// Pure: no I/O, no clock, no thread, no allocation (after Actions::Reserve), and nothing depends on
// anything but the arguments. Several drivers share it: the threaded
// runtime, the deterministic runtime and the simulator. It is not the checker of liveness: that is
// a token game of its own in the compiler.
//
// Invariants (checked by CheckInvariants), for all sources p of an input, readers q of an output:
//  1. completed <= issued.
//  2. reads begun <= d + filled[p] <= reads done + max(s, d): never ahead of the writer, and never
//     more fills there than the register has slots for.
//  3. returned[q] <= d + fills done: nobody returns what was not written.
//  4. fills begun <= returned[q] + max(s, d) - d: no slot is overwritten before it is returned.
// A message carries the receiver's own count as its sequence, so a lost, doubled or overtaken
// message is noticed at once (CHECK: our bug).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/actor/actor_spec.h"
#include "oneflow_core/plan/message.h"

namespace oneflow {

struct ActorState {
  int64_t issued = 0;             // firings
  int64_t completed = 0;          // firings
  std::vector<int64_t> filled;    // for each source: fills it told us of
  std::vector<int64_t> returned;  // for each reader: fills it gave back, initial ones included
  bool operator==(const ActorState&) const = default;
};

// Run the actor's kernel. slots[first_slot ...]: the slot of each input, then of each output.
struct Launch {
  int64_t firing = 0;
  uint32_t first_slot = 0;
  bool accumulate = false;  // this firing adds to a fill that an earlier one began
};

// What a driver has to do, in this order. Message::epoch is left 0: it belongs to the driver.
struct Actions {
  std::vector<Launch> launches;
  std::vector<int32_t> slots;
  std::vector<Message> sends;

  void Clear();
  // Makes room so that Issue and Complete of `spec` after a Clear never allocate.
  void Reserve(const ActorSpec& spec);
};

ActorState InitialState(const ActorSpec& spec);
// Back to the initial marking, in place.
void Reset(ActorState* state);

bool CanFire(const ActorSpec& spec, const ActorState& state);

// Counts a kFilled or kReturned message. Requires that it is for this actor, in order on its port.
void Receive(const ActorSpec& spec, const Message& message, ActorState* state);

// Requires CanFire. Appends one Launch and the messages to peers on the same stream.
void Issue(const ActorSpec& spec, ActorState* state, Actions* actions);

// Requires completed < issued. Firings complete in the order they were issued.
void Complete(const ActorSpec& spec, ActorState* state, Actions* actions);

// Slot that firing n of the actor reads at input i, or writes at output o.
int32_t ReadSlot(const ActorInput& input, int64_t firing);
int32_t WriteSlot(const ActorOutput& output, int64_t firing);

// All messages are counted and the tokens lie as at the start: a run of whole steps is over.
bool IsDrained(const ActorSpec& spec, const ActorState& state);

// An invariant that does not hold is an INTERNAL error that names it.
absl::Status CheckInvariants(const ActorSpec& spec, const ActorState& state);

// What the next firing waits for: a source's fill, or the return of a reader.
struct FiringWait {
  bool for_return = false;
  int32_t edge = 0;            // input or output
  int32_t peer = 0;            // index in spec.sources or spec.readers
  int64_t have = 0, need = 0;  // fills or returns
  bool operator==(const FiringWait&) const = default;
};
std::vector<FiringWait> WaitsOf(const ActorSpec& spec, const ActorState& state);

}  // namespace oneflow
