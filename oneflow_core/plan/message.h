// The messages between actors. They hold ids only, never a pointer, so that the same message may
// cross a process boundary.
//
// A message carries no tensor: the bytes are in the slot that it names.
#pragma once

#include <cstdint>
#include <type_traits>

namespace oneflow {

struct Message {
  enum Kind : uint32_t {
    kFilled = 0,    // a fill of a register is there: writer -> reader
    kReturned = 1,  // a reader is done with a fill: reader -> writer
  };
  uint32_t epoch = 0;    // which run of the process; messages of other epochs are dropped
  uint32_t program = 0;  // index in Plan.program
  uint32_t to_rank = 0;
  uint32_t actor = 0;  // receiving actor, index in the program
  Kind kind = kFilled;
  // The receiver's port. kFilled: the n-th of the reader's (input, source) pairs;
  // kReturned: the n-th of the writer's (output, reader, device) triples; both in that
  // lexicographic order.
  uint32_t port = 0;
  uint32_t slot = 0;      // the buffer of the fill (buffers.h)
  uint64_t sequence = 0;  // fill number since the start of the run, as the receiver counts it

  bool operator==(const Message&) const = default;
};

static_assert(std::is_trivially_copyable_v<Message>);

}  // namespace oneflow
