// Two processes of this host that exchange over the real transport: what a link between processes
// does. Both are forked from the caller, which itself never touches the transport.
//
//   FarPairOptions options{.transports = "tcp,self", .seconds = 1};
//   ASSIGN_OR_RETURN(const LinkRate rate, MeasureFarPair(options));
//
// Requires that the caller has no other thread: what is forked has none but its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

struct FarPairOptions {
  std::string transports;          // UcxOptions
  std::string interface = "lo";    // UcxOptions
  int64_t pull_bytes = 256 << 10;  // of a packet; up to 16 are on their way
  int64_t row_bytes = 0;           // the source's rows are as long, and apart; 0: packets are rows
  bool both_ways = false;          // both processes send and receive
  bool one_buffer = false;         // all packets are read from and written to the same memory
  bool spin = true;                // who waits looks for some microseconds before it sleeps
  double seconds = 1;              // to spend, about
  std::function<void(int)> prepare;  // called in process 0 and in process 1 before all else
};

struct LinkRate {
  double bandwidth = 0;      // bytes/s of packets, one direction
  double entry_seconds = 0;  // an exchange of one element: entered, asked for, sent, done
};

absl::StatusOr<LinkRate> MeasureFarPair(const FarPairOptions& options);

}  // namespace oneflow
