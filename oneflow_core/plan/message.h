// What actors tell each other, as plain ids (proto/message.proto is the same between processes).
// A trivially copyable value of a fixed size: it may lie in a ring buffer and be copied by memcpy.
//
//   Message m{.to_rank = 1, .actor = 7, .kind = Message::kFilled, .port = 0, .sequence = 3};
#pragma once

#include <cstdint>
#include <type_traits>

namespace oneflow {

struct Message {
  enum Kind : uint8_t {
    kFilled = 0,    // a fill of a register is there: writer -> reader
    kReturned = 1,  // a reader is done with a fill: reader -> writer
    kCancel = 2,    // the run ends with a failure: stop
  };
  uint32_t epoch = 0;      // which run of the process; messages of other epochs are dropped
  uint32_t program = 0;    // index in Plan.program
  uint32_t to_rank = 0;
  uint32_t from_rank = 0;
  uint32_t actor = 0;      // receiving actor, index in the program
  Kind kind = kFilled;
  uint32_t port = 0;       // input index of the reader (filled) or reader index at the writer (returned)
  uint32_t slot = 0;
  uint64_t sequence = 0;   // fill number since the start of the run
  uint32_t event = 0;      // device event that marks completion; 0 on CPU
  bool operator==(const Message&) const = default;
};
static_assert(std::is_trivially_copyable_v<Message>);

}  // namespace oneflow
