// What is fixed about one actor on one device: its rates and whom it tells. Made once, at load,
// from the plan (exec/instantiate.h). What a stream's actors read while they run is made from it:
// actor_table.h.
//
// It knows no kernel, no memory and no stream.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

// When the far end of an edge learns of a firing.
enum class Told : uint8_t {
  kWhenDone,   // at completion
  kWithEvent,  // at issue: it is on another stream of a device whose streams wait for each other
  kInOrder,    // at issue: it is on the same stream, which runs what it is given in order
};

// The far end of an edge, an actor of the same device, and the port where our messages arrive
// there.
struct ActorPeer {
  uint32_t actor = 0;  // index in the program
  uint32_t port = 0;   // see Message::port
  // Reader of ours: fills that wait for it at the start. Source of ours: not used.
  int32_t initial_fills = 0;
  Told told = Told::kWhenDone;
};

struct ActorInput {
  int32_t fires_per_read = 1;  // k
  int32_t initial_fills = 0;   // d
  int32_t slots = 1;           // of the register read
  int32_t buffers = 1;         // of it, which its fills take in turn; at least as many
  int32_t first_buffer = 0;    // of fill 0 of the writer
  // Nobody writes the register in this program, or this actor updates it in place: never waited
  // for, never returned. An actor that reads its own last fill of several slots has no source
  // either, but its slot moves on.
  bool always_full = false;
  int32_t first_source = 0, n_sources = 0;  // in ActorSpec::sources
};

struct ActorOutput {
  enum Mode : uint8_t { kFresh, kAccumulate, kUpdate };
  int32_t slots = 1;           // s
  int32_t buffers = 1;         // which fills take in turn; at least s
  int32_t first_buffer = 0;    // of fill 0
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
