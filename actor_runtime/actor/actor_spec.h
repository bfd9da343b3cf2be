// ActorSpec: the fixed facts of one actor on one device: its rates, and the peers that it notifies.
// It is made once, at load, from the plan (exec/instantiate.h). The tables that a stream's actors
// read while they run are made from it (actor_table.h).
//
// It knows no kernel, no memory and no stream.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

// When the far end of an edge learns of a firing.
enum class NotifyWhen : uint8_t {
  kWhenDone,   // at completion
  kWithEvent,  // at issue: it is on another stream of a device whose streams wait for each other
  kInOrder,    // at issue: it is on the same stream, which runs what it is given in order
};

// The far end of an edge: an actor of the same device, and the port at which our messages arrive.
struct ActorPeer {
  uint32_t actor = 0;  // index in the program
  uint32_t port = 0;   // see Message::port
  // For a reader of ours: the fills that wait for it at the start. Unused for a source of ours.
  int32_t initial_fills = 0;
  NotifyWhen when = NotifyWhen::kWhenDone;
};

struct ActorInput {
  int32_t fires_per_read = 1;  // k
  int32_t initial_fills = 0;   // d
  int32_t slots = 1;           // slots of the register that is read
  int32_t buffers = 1;  // the register's buffers, which its fills use in turn; at least `slots`
  int32_t first_buffer = 0;  // buffer of the writer's fill 0
  // True if nobody writes the register in this program, or if this actor updates it in place. Such
  // an input is never waited for and never returned. An actor that reads its own last fill of
  // several slots has no source either, but its slot moves on.
  bool always_full = false;
  int32_t first_source = 0, n_sources = 0;  // in ActorSpec::sources
};

struct ActorOutput {
  enum Mode : uint8_t { kFresh, kAccumulate, kUpdate };
  int32_t slots = 1;           // s
  int32_t buffers = 1;         // which fills take in turn; at least s
  int32_t first_buffer = 0;    // buffer of fill 0
  int32_t fires_per_fill = 1;  // f
  Mode mode = kFresh;
  int32_t first_reader = 0, n_readers = 0;  // in ActorSpec::readers
};

struct ActorSpec {
  uint32_t program = 0, rank = 0, actor = 0;
  std::vector<ActorInput> inputs;
  std::vector<ActorOutput> outputs;
  std::vector<ActorPeer> sources;  // by input
  std::vector<ActorPeer> readers;  // by (output, reading actor and input)
};

}  // namespace oneflow
