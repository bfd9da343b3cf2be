// Numbers as people give them: devices as nodes x devices of a node, batches in tokens or
// sequences, lengths with k and M. k, M and G are 1,024 each time, as is usual of tokens: 8k is
// 8,192, and a batch of 4M are 1,024 sequences of 4,096.
//
//   ParseDeviceGrid("8x8")     -> 8 nodes of 8, 64 devices
//   ParseBatch("4Mtokens")     -> 4,194,304 tokens;  ParseBatch("1024") -> 1,024 sequences
//   ParseSequence("8k")        -> 8192
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

struct DeviceGrid {
  int64_t nodes = 0;    // 0: not said
  int64_t devices = 0;  // all of them
};
// "64", "8x8", "8*8".
absl::StatusOr<DeviceGrid> ParseDeviceGrid(const std::string& text);

// One of the two is 0.
struct BatchSize {
  int64_t sequences = 0, tokens = 0;
};
// "1024", "1024sequences", "4M" and "4Mtokens" (tokens), "500000tokens". A number alone is of
// sequences, one with k, M or G of tokens.
absl::StatusOr<BatchSize> ParseBatch(const std::string& text);

// "8192", "8k". Tokens of a sequence.
absl::StatusOr<int64_t> ParseSequence(const std::string& text);

}  // namespace oneflow
