// Two processes of this host that exchange over the real transport: what a link between processes
// does. Both are forked from the caller, which itself never touches the transport.
//
//   FarPairOptions options{.transports = "tcp,self", .seconds = 1};
//   ASSIGN_OR_RETURN(const LinkRate rate, MeasureFarPair(options));
//
// Requires that the caller has no other thread: what is forked has none but its own.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

struct FarPairOptions {
  std::string transports;        // UcxOptions
  std::string interface = "lo";  // UcxOptions
  bool spin = true;              // who waits looks for some microseconds before it sleeps
  double seconds = 1;            // to spend, about
  std::function<void(int)> prepare = nullptr;  // called in each process before all else
};

struct LinkRate {
  double bandwidth = 0;      // bytes/s of packets, each direction while both are in use
  double entry_seconds = 0;  // an exchange of one element: entered, asked for, sent, done
};

absl::StatusOr<LinkRate> MeasureFarPair(const FarPairOptions& options);

}  // namespace oneflow
