// FarMessage: a message between processes about an exchange, or the beat of a process to another: a
// header of fixed size, which the payload of a piece follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"

namespace oneflow {

struct FarMessage {
  static constexpr uint32_t kMagic = 0x6f6e6578;
  // kBeat belongs to no communicator: networks take it for themselves.
  enum Kind : uint32_t { kEntered, kPull, kPiece, kDone, kAbort, kBeat };

  uint32_t magic = kMagic;
  uint32_t kind = kEntered;
  uint64_t communicator = 0;
  uint64_t number = 0;       // exchange number, across steps and programs
  int32_t from = 0, to = 0;  // members; for messages between processes, the first member there
  int64_t packet = 0;  // packet number, for a pull or a piece: on the route from source to reader
  int64_t length = 0;  // bytes of payload

  bool operator==(const FarMessage&) const = default;
};
static_assert(std::is_trivially_copyable_v<FarMessage>);

// Parses the bytes of a header. Returns an error for bytes that are no header; the machine checks
// the rest.
inline absl::StatusOr<FarMessage> FarMessageFrom(std::span<const std::byte> bytes) {
  FarMessage message;
  if (bytes.size() != sizeof(message)) {
    return absl::InvalidArgumentError("a message of " + std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(&message, bytes.data(), sizeof(message));
  if (message.magic != FarMessage::kMagic || message.kind > FarMessage::kBeat) {
    return absl::InvalidArgumentError("bytes that are no message of an exchange");
  }
  return message;
}

}  // namespace oneflow
