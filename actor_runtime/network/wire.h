// The form of a message between processes: a header of fixed size, and behind that of a piece its
// payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "actor_runtime/exchange/far_message.h"

namespace oneflow {

// Ids of UCX's active messages.
inline constexpr unsigned kMessageId = 1;
// Payloads up to here travel with their header. Larger ones wait at the sender until the receiver
// has given their destination, so that no data waits in UCX's buffers.
inline constexpr int64_t kEagerBytes = 4096;

struct WireHeader {
  uint64_t job = 0;
  uint32_t attempt = 0;
  int32_t from_process = 0;
  FarMessage message;
};
static_assert(std::is_trivially_copyable_v<WireHeader> &&
              sizeof(WireHeader) == 16 + sizeof(FarMessage));

// The header's bytes as a header of this job and attempt; nothing for all others.
inline std::optional<WireHeader> WireHeaderFrom(std::span<const std::byte> bytes, uint64_t job,
                                                uint32_t attempt, int processes) {
  WireHeader header;
  if (bytes.size() != sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.job != job || header.attempt != attempt) return std::nullopt;
  if (header.from_process < 0 || header.from_process >= processes) return std::nullopt;
  return header;
}

// The message of a header with a payload of so many bytes behind it.
inline absl::StatusOr<FarMessage> MessageIn(const WireHeader& header, size_t payload) {
  const absl::StatusOr<FarMessage> message =
      FarMessageFrom({reinterpret_cast<const std::byte*>(&header.message), sizeof(header.message)});
  if (message.ok() && message->length != static_cast<int64_t>(payload)) {
    return absl::DataLossError("it says " + std::to_string(message->length) + " bytes and has " +
                               std::to_string(payload));
  }
  return message;
}

}  // namespace oneflow
