#include "actor_runtime/actor/actor_state.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Almost all rates and slot counts are 1; a branch is far cheaper than a 64-bit division.
int64_t Quotient(int64_t n, int32_t by) { return by == 1 ? n : n / by; }

bool Divides(int32_t by, int64_t n) { return by == 1 || n % by == 0; }

int32_t SlotOf(int64_t fill, int32_t slots) {
  if (slots == 1) return 0;
  const int64_t slot = fill % slots;
  return static_cast<int32_t>(slot < 0 ? slot + slots : slot);
}

// Fills of an output that `firings` issued firings have begun, or of an input that they have read
// to the end.
int64_t Begun(int64_t firings, int32_t per) { return Quotient(firings + per - 1, per); }
int64_t Done(int64_t firings, int32_t per) { return Quotient(firings, per); }

Message ToPeer(const ActorSpec& spec, const ActorPeer& peer, Message::Kind kind) {
  Message message;
  message.program = spec.program;
  message.to_rank = peer.rank;
  message.from_rank = spec.rank;
  message.actor = peer.actor;
  message.kind = kind;
  message.port = peer.port;
  return message;
}

// Tells what firing n is the last of, to peers on the same stream or to all the others.
void Tell(const ActorSpec& spec, int64_t n, bool same_stream, Actions* actions) {
  for (const ActorOutput& output : spec.outputs) {
    if (output.n_readers == 0 || !Divides(output.fires_per_fill, n + 1)) continue;
    const int64_t fill = Quotient(n, output.fires_per_fill);
    const ActorPeer* reader = spec.readers.data() + output.first_reader;
    for (const ActorPeer* end = reader + output.n_readers; reader != end; ++reader) {
      if (reader->same_stream != same_stream) continue;
      Message& message = actions->sends.emplace_back(ToPeer(spec, *reader, Message::kFilled));
      message.slot = SlotOf(fill, output.slots);
      message.sequence = fill;
    }
  }
  for (const ActorInput& input : spec.inputs) {
    if (input.always_full || !Divides(input.fires_per_read, n + 1)) continue;
    const int64_t read = Quotient(n, input.fires_per_read);
    const ActorPeer* source = spec.sources.data() + input.first_source;
    for (const ActorPeer* end = source + input.n_sources; source != end; ++source) {
      if (source->same_stream != same_stream) continue;
      Message& message = actions->sends.emplace_back(ToPeer(spec, *source, Message::kReturned));
      message.slot = SlotOf(read - input.initial_fills, input.slots);
      message.sequence = read;
    }
  }
}

absl::Status Broken(const ActorSpec& spec, int invariant, absl::string_view what, int64_t index) {
  return absl::InternalError(absl::StrCat("actor ", spec.actor, " at rank ", spec.rank,
                                          ": invariant ", invariant, " of actor_state broken at ",
                                          what, " ", index));
}

absl::Status CheckInput(const ActorSpec& spec, const ActorState& state, const ActorInput& input) {
  if (input.always_full) return absl::OkStatus();
  const int64_t read = Begun(state.issued, input.fires_per_read);
  const int64_t given_back = Done(state.issued, input.fires_per_read);
  const int32_t room = std::max(input.slots, input.initial_fills);
  for (int32_t p = input.first_source; p < input.first_source + input.n_sources; ++p) {
    const int64_t there = input.initial_fills + state.filled[p];
    if (read > there || there > given_back + room) return Broken(spec, 2, "source", p);
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const ActorSpec& spec, const ActorState& state,
                         const ActorOutput& output) {
  const int64_t begun = Begun(state.issued, output.fires_per_fill);
  const int64_t full = Done(state.issued, output.fires_per_fill);
  for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
    const int32_t d = spec.readers[q].initial_fills;
    if (state.returned[q] > d + full) return Broken(spec, 3, "reader", q);
    if (begun > state.returned[q] + std::max(output.slots, d) - d)
      return Broken(spec, 4, "reader", q);
  }
  return absl::OkStatus();
}

}  // namespace

void Actions::Clear() {
  launches.clear();
  slots.clear();
  sends.clear();
}

void Actions::Reserve(const ActorSpec& spec) {
  launches.reserve(1);
  slots.reserve(spec.inputs.size() + spec.outputs.size());
  sends.reserve(spec.sources.size() + spec.readers.size());
}

ActorState InitialState(const ActorSpec& spec) {
  ActorState state;
  state.filled.resize(spec.sources.size());
  state.returned.resize(spec.readers.size());
  return state;
}

void Reset(ActorState* state) {
  state->issued = state->completed = 0;
  std::fill(state->filled.begin(), state->filled.end(), 0);
  std::fill(state->returned.begin(), state->returned.end(), 0);
}

bool CanFire(const ActorSpec& spec, const ActorState& state) {
  const int64_t n = state.issued;
  for (const ActorInput& input : spec.inputs) {
    if (input.always_full) continue;
    const int64_t need = Quotient(n, input.fires_per_read) + 1 - input.initial_fills;
    const int64_t* filled = state.filled.data() + input.first_source;
    for (int32_t p = 0; p < input.n_sources; ++p) {
      if (filled[p] < need) return false;
    }
  }
  for (const ActorOutput& output : spec.outputs) {
    if (output.n_readers == 0 || !Divides(output.fires_per_fill, n)) continue;
    // Fill w - s must be back; before the first one this asks for no more than zero returns.
    const int64_t need = Quotient(n, output.fires_per_fill) - output.slots + 1;
    const int64_t* returned = state.returned.data() + output.first_reader;
    const ActorPeer* readers = spec.readers.data() + output.first_reader;
    for (int32_t q = 0; q < output.n_readers; ++q) {
      if (returned[q] < need + readers[q].initial_fills) return false;
    }
  }
  return true;
}

void Receive(const ActorSpec& spec, const Message& message, ActorState* state) {
  std::vector<int64_t>& counts = message.kind == Message::kFilled ? state->filled : state->returned;
  CHECK(message.to_rank == spec.rank && message.actor == spec.actor && message.port < counts.size())
      << "a message for actor " << message.actor << " at rank " << message.to_rank
      << " reached actor " << spec.actor << " at rank " << spec.rank;
  int64_t& count = counts[message.port];
  CHECK(static_cast<uint64_t>(count) == message.sequence)
      << "actor " << spec.actor << " at rank " << spec.rank << ", port " << message.port
      << ": message " << message.sequence << " where " << count << " was due";
  ++count;
}

int32_t ReadSlot(const ActorInput& input, int64_t firing) {
  if (input.slots == 1) return 0;
  // Nobody writes it here: the newest fill stays where the last program left it.
  if (input.always_full) return SlotOf(-1, input.slots);
  return SlotOf(Quotient(firing, input.fires_per_read) - input.initial_fills, input.slots);
}

int32_t WriteSlot(const ActorOutput& output, int64_t firing) {
  if (output.slots == 1) return 0;
  return SlotOf(Quotient(firing, output.fires_per_fill), output.slots);
}

void Issue(const ActorSpec& spec, ActorState* state, Actions* actions) {
  const int64_t n = state->issued++;
  Launch& launch = actions->launches.emplace_back();
  launch.firing = n;
  launch.first_slot = static_cast<uint32_t>(actions->slots.size());
  for (const ActorInput& input : spec.inputs) actions->slots.push_back(ReadSlot(input, n));
  for (const ActorOutput& output : spec.outputs) {
    actions->slots.push_back(WriteSlot(output, n));
    if (output.mode == ActorOutput::kAccumulate && !Divides(output.fires_per_fill, n)) {
      launch.accumulate = true;
    }
  }
  Tell(spec, n, /*same_stream=*/true, actions);
}

void Complete(const ActorSpec& spec, ActorState* state, Actions* actions) {
  DCHECK_LT(state->completed, state->issued);
  Tell(spec, state->completed++, /*same_stream=*/false, actions);
}

bool IsDrained(const ActorSpec& spec, const ActorState& state) {
  if (state.completed != state.issued) return false;
  for (const ActorInput& input : spec.inputs) {
    if (input.always_full) continue;
    if (!Divides(input.fires_per_read, state.issued)) return false;
    const int64_t read = Done(state.issued, input.fires_per_read);
    for (int32_t p = input.first_source; p < input.first_source + input.n_sources; ++p) {
      if (state.filled[p] != read) return false;
    }
  }
  for (const ActorOutput& output : spec.outputs) {
    if (!Divides(output.fires_per_fill, state.issued)) return false;
    const int64_t full = Done(state.issued, output.fires_per_fill);
    for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
      if (state.returned[q] != full) return false;
    }
  }
  return true;
}

absl::Status CheckInvariants(const ActorSpec& spec, const ActorState& state) {
  if (state.completed > state.issued) return Broken(spec, 1, "firing", state.completed);
  for (const ActorInput& input : spec.inputs) {
    if (absl::Status status = CheckInput(spec, state, input); !status.ok()) return status;
  }
  for (const ActorOutput& output : spec.outputs) {
    if (absl::Status status = CheckOutput(spec, state, output); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<FiringWait> WaitsOf(const ActorSpec& spec, const ActorState& state) {
  std::vector<FiringWait> waits;
  const int64_t n = state.issued;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const ActorInput& input = spec.inputs[i];
    if (input.always_full) continue;
    const int64_t need = Quotient(n, input.fires_per_read) + 1 - input.initial_fills;
    for (int32_t p = input.first_source; p < input.first_source + input.n_sources; ++p) {
      if (state.filled[p] < need) {
        waits.push_back({false, static_cast<int32_t>(i), p, state.filled[p], need});
      }
    }
  }
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    const ActorOutput& output = spec.outputs[o];
    if (!Divides(output.fires_per_fill, n)) continue;
    for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
      const int64_t need =
          Quotient(n, output.fires_per_fill) - output.slots + 1 + spec.readers[q].initial_fills;
      if (state.returned[q] < need) {
        waits.push_back({true, static_cast<int32_t>(o), q, state.returned[q], need});
      }
    }
  }
  return waits;
}

}  // namespace oneflow
